"""What the API process tells the engine core and the workers at start."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FORMAT = 1
_KEY = "ropeway"


class SettingsError(ValueError):
    """`additional_config` does not carry this version's settings."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Settings that travel in vLLM's `additional_config`, and so into its compile-cache key.

    `heads` are the (layer, query head) pairs whose relevance the score pass reads; none means that
    no layer is tapped.
    """

    heads: tuple[tuple[int, int], ...] = ()

    def to_config(self) -> dict[str, Any]:
        """The entry to merge into `additional_config` (JSON types only)."""
        return {_KEY: {"format": FORMAT, "heads": [list(head) for head in self.heads]}}

    @staticmethod
    def from_config(additional_config: object) -> "EngineSettings":
        """Read the settings back; raises SettingsError when they are missing or foreign."""
        entry = additional_config.get(_KEY) if isinstance(additional_config, Mapping) else None
        if not isinstance(entry, Mapping) or entry.get("format") != FORMAT:
            raise SettingsError(
                f"additional_config[{_KEY!r}] of format {FORMAT} is missing: start the engine through "
                "`ropeway serve`, or pass EngineSettings(...).to_config()"
            )
        return EngineSettings(heads=tuple((int(layer), int(head)) for layer, head in entry["heads"]))
