"""Exponentials of whole matrices, by which the closed forms are judged."""

import scipy.linalg
import torch


def exponential(matrix: torch.Tensor) -> torch.Tensor:
    """exp of a float64 matrix: SciPy's, since torch's is off in the tenth digit at norms around 0.05."""
    return torch.from_numpy(scipy.linalg.expm(matrix.numpy()))
