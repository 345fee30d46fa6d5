"""`ropeway init-config`: writes a model folder of the architecture whose layers differ."""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoConfig

from cache.architecture_config import MODEL_TYPE, NAME, Architecture, ArchitectureError, LayerConfig
from cache.head_profile import FILE_NAME as HEADS
from cache.ropeway_config import architecture_of
from cache.translation import translated
from server.default_model import MANIFEST
from server.init_options import Pattern

CONFIG = "config.json"
# How a checkpoint is stored and which tokens end its answers; nothing of its layers.
_KEPT = ("dtype", "torch_dtype", "bos_token_id", "eos_token_id", "pad_token_id", "quantization_config")
# They belong to the model as it was.
_LEFT_BEHIND = (CONFIG, HEADS, MANIFEST)
_WITHOUT_ROTATION = {
    "rotary": "none",
    "rotary_fraction": None,
    "base": None,
    "scaling": None,
    "pairing": None,
    "basis": None,
    "spectrum": None,
}


class InitConfigError(ValueError):
    """The folder cannot be written; the message says what stands in the way."""


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of layers; by default they stay as they are.

    `window`: the tokens that a pattern's windowed layers see. `global_rotates`: whether its global layers
    keep their rotation. `query_scale`: floor_scale and attn_scale of all layers without rotation.
    """

    pattern: Pattern | None = None
    window: int | None = None
    global_rotates: bool = False
    query_scale: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if (self.pattern is not None and self.pattern.windowed > 0) != (self.window is not None):
            raise InitConfigError("--window and a --pattern with windowed layers need each other")

    def of(self, architecture: Architecture) -> Architecture:
        """The architecture with its layers changed; raises InitConfigError."""
        layers = [self._layer(index, layer) for index, layer in enumerate(architecture.every_layer)]
        return _read(architecture.model_dump(mode="json") | {"layers": layers, "layer_pattern": None})

    def _layer(self, index: int, layer: LayerConfig) -> dict[str, Any]:
        fields = layer.model_dump(mode="json")
        if self.pattern is not None:
            windowed = self.pattern.has_window(index)
            fields["window"] = self.window if windowed else None
            if not (windowed or self.global_rotates):
                fields |= _WITHOUT_ROTATION
        if self.query_scale is not None and fields["rotary"] == "none":
            fields["query_scale"] = dict(zip(("floor_scale", "attn_scale"), self.query_scale, strict=True))
        return fields


@dataclass(frozen=True, slots=True)
class Source:
    """A model folder to start from: its architecture, and what else its configuration says of it."""

    folder: Path
    architecture: Architecture
    kept: dict[str, Any]

    @staticmethod
    def read(folder: Path) -> "Source":
        """Read a folder; raises InitConfigError where it is none or its model is not Llama-shaped."""
        try:
            values = json.loads((folder / CONFIG).read_text())
            config = AutoConfig.from_pretrained(folder)
            architecture = architecture_of(config) or translated(config)
        except (OSError, ValueError) as error:
            raise InitConfigError(f"--from {folder}: {error}") from error
        return Source(folder, architecture, {name: values[name] for name in _KEPT if name in values})

    def link_files(self, target: Path) -> None:
        """Put weights and tokenizer beside the new configuration, linked where the disk allows it."""
        for file in sorted(self.folder.iterdir()):
            if file.is_file() and file.name not in _LEFT_BEHIND:
                _link(file.resolve(), target / file.name)


def uniform(shape: dict[str, Any], layer: dict[str, Any]) -> Architecture:
    """An architecture of equal global layers; raises InitConfigError, naming the field."""
    return _read({**shape, "layer_pattern": [{"window": None, **layer}]})


def init_config(out: Path, base: Architecture | Source, change: Change, *, drop_rotation: bool) -> str:
    """Write the folder `out` and say what it holds.

    From a checkpoint, weights and tokenizer come along, and layers that its training rotated lose their
    rotation only where `drop_rotation` says so. Raises InitConfigError.
    """
    source = base if isinstance(base, Source) else None
    before = base.architecture if isinstance(base, Source) else base
    after = change.of(before)
    dropped = [index for index in rotated(before) if index not in rotated(after)]
    if source is not None and dropped and not drop_rotation:
        raise InitConfigError(
            f"layers {', '.join(map(str, dropped))} were trained with rotation and would have none, which "
            "changes what the model computes: keep it by --global-rotates, or say --drop-rotation"
        )
    if out.exists() and any(out.iterdir()):
        raise InitConfigError(f"--out {out} is not empty")
    out.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": [NAME],
        "model_type": MODEL_TYPE,
        **(source.kept if source else {}),
        **written(after),
    }
    (out / CONFIG).write_text(json.dumps(config, indent=2) + "\n")
    if source is not None:
        source.link_files(out)
    windowed = sum(layer.window is not None for layer in after.every_layer)
    turning = len(rotated(after))
    return f"{out}: {after.num_hidden_layers} layers, {windowed} with a window, {turning} with rotation"


def rotated(architecture: Architecture) -> list[int]:
    """The layers with rotation."""
    return [index for index, layer in enumerate(architecture.every_layer) if layer.rotary != "none"]


def written(architecture: Architecture) -> dict[str, Any]:
    """The fields of an architecture as short as they can be said: layers as the shortest pattern."""
    layers = [_written(layer) for layer in architecture.every_layer]
    period = next(
        p for p in range(1, len(layers) + 1) if layers == [layers[i % p] for i in range(len(layers))]
    )
    values = architecture.model_dump(mode="json", exclude={"layers", "layer_pattern"})
    if period == len(layers):
        return values | {"layers": layers}
    return values | {"layer_pattern": layers[:period]}


def _written(layer: LayerConfig) -> dict[str, Any]:
    return {
        "rotary": layer.rotary,
        "window": layer.window,
        **layer.model_dump(mode="json", exclude_defaults=True),
    }


def _read(values: dict[str, Any]) -> Architecture:
    try:
        return Architecture.read({name: value for name, value in values.items() if value is not None})
    except ArchitectureError as error:
        raise InitConfigError(str(error)) from error


def _link(file: Path, target: Path) -> None:
    try:
        os.link(file, target)
    except OSError:
        # Another file system, or one without hard links.
        shutil.copy2(file, target)
