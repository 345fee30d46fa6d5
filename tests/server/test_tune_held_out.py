from itertools import count

import pytest

from positional.qgpm import PACKAGE_DEFAULTS, QGPMConfig
from server import tune_held_out
from server.tune_held_out import FEWEST_BLOCKS, FIRST_BLOCK, MOST_BLOCKS, HeldOut, interval
from server.tune_search import SEARCHED, BlockGain

OTHER = PACKAGE_DEFAULTS.resolve({"score_low": 0.9})


def compared(gain: float, noise: float, blocks: int = MOST_BLOCKS, challenger: QGPMConfig = OTHER) -> HeldOut:
    """The challenger gains so much more than the incumbent, up and down by the noise from block to block."""

    def objective(config: QGPMConfig, block: int) -> BlockGain:
        assert block >= SEARCHED
        more = gain + noise * (-1) ** block if config == OTHER else 0.0
        return BlockGain(evidence=1 + block + more, heads=-1 + block + more)

    held_out, asked = HeldOut(PACKAGE_DEFAULTS, challenger), count()
    tune_held_out.run(held_out, objective, lambda: next(asked) < blocks)
    return held_out


def test_a_gain_changes_the_defaults() -> None:
    held_out = compared(gain=1, noise=0.5)

    assert held_out.changes
    assert held_out.chosen == OTHER
    assert held_out.difference is not None
    assert held_out.difference.mean == pytest.approx(1 + 1)  # of evidence and of heads
    means = [held_out.gain("evidence"), held_out.gain("heads")]
    blocks = FIRST_BLOCK + (MOST_BLOCKS - 1) / 2
    assert [gain.mean for gain in means if gain is not None] == [1 + blocks + 1, -1 + blocks + 1]


@pytest.mark.parametrize(("gain", "noise"), [(0.0, 0.5), (-1.0, 0.5), (-0.1, 3.0)])
def test_without_a_gain_the_incumbent_stays(gain: float, noise: float) -> None:
    held_out = compared(gain, noise)

    assert not held_out.changes
    assert held_out.chosen == PACKAGE_DEFAULTS
    own = held_out.gain("evidence")
    assert own is not None
    assert own.mean == 1 + FIRST_BLOCK + (MOST_BLOCKS - 1) / 2


def test_a_gain_within_noise_changes_the_defaults_too() -> None:
    held_out = compared(gain=0.5, noise=3.0)

    assert held_out.difference is not None
    assert held_out.difference.low < 0
    assert held_out.chosen == OTHER


def test_too_few_blocks_change_nothing() -> None:
    held_out = compared(gain=5, noise=0.1, blocks=FEWEST_BLOCKS - 1)

    assert held_out.difference is None
    assert held_out.gain("heads") is None
    assert held_out.chosen == PACKAGE_DEFAULTS


def test_an_incumbent_that_is_best_is_measured_for_its_own_gain() -> None:
    held_out = compared(gain=1, noise=0, challenger=PACKAGE_DEFAULTS)

    assert not held_out.changes
    assert len(held_out.incumbent_gains) == MOST_BLOCKS


def test_the_interval_is_students() -> None:
    gain = interval([1.0, 2.0, 3.0])

    assert gain is not None
    assert gain.mean == 2
    # The standard error is 1/√3, and t at two degrees of freedom 4.303.
    assert gain.high - gain.mean == pytest.approx(4.303 / 3**0.5, abs=1e-3)
    assert gain.mean - gain.low == pytest.approx(gain.high - gain.mean, abs=2e-3)
