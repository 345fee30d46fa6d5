"""How times and sizes are written."""

from loadtests.quality.notation import NOTHING


def seconds(value: float | None) -> str:
    """Seconds, or milliseconds below one."""
    if value is None:
        return NOTHING
    return f"{value:.2f} s" if value >= 1 else f"{1000 * value:.0f} ms"


def size(count: float) -> str:
    """Bytes in MiB, or KiB below one."""
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count / 2**10:.1f} KiB"


def share(value: float | None) -> str:
    """A share in per cent."""
    return NOTHING if value is None else f"{100 * value:.1f} %"
