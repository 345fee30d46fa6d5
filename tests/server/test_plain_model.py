"""The architecture in transformers, which calibration reads."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from server.head_reader import HeadReaderError, Reader
from tests.support.hybrid_reference import HybridReference
from tests.support.hybrids import ENCODED, PATTERNS, WINDOW, make_hybrid


@pytest.mark.parametrize("pattern", sorted(PATTERNS.keys() - set(ENCODED)))
def test_it_computes_what_the_reference_does(pattern: str, tmp_path: Path) -> None:
    folder = make_hybrid(pattern, tmp_path)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = torch.randint(3, 500, (3 * WINDOW,), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        logits = model(ids[None]).logits[0]
    assert torch.allclose(logits, HybridReference(folder).logits(ids.tolist()), atol=1e-3)


@pytest.mark.parametrize(
    ("pattern", "layer", "fields"),
    [
        ("alibi", 0, "bias"),
        ("learned bases", 0, "basis"),
        ("learned spectra", 0, "spectrum"),
        ("learned planes", 0, "rotary"),
    ],
)
def test_what_it_does_not_compute_is_refused_by_layer(
    pattern: str, layer: int, fields: str, tmp_path: Path
) -> None:
    with pytest.raises(HeadReaderError, match=f"cannot be calibrated: layer {layer} has {fields}, which"):
        Reader.load(make_hybrid(pattern, tmp_path))


def test_heads_are_chosen_from_global_layers_with_rotation(tmp_path: Path) -> None:
    reader = Reader.load(make_hybrid("global rotary", tmp_path))
    assert reader.candidates == tuple((layer, head) for layer in (1, 3) for head in range(4))


def test_a_model_whose_global_layers_do_not_rotate_has_no_heads_to_choose_from(tmp_path: Path) -> None:
    with pytest.raises(HeadReaderError, match="no full-attention layer with rotary positions"):
        Reader.load(make_hybrid("3:1", tmp_path))
