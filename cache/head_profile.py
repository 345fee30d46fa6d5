"""The heads that QGPM reads relevance from, for one model: the file that keeps them, and where it is found.

A head profile is a JSON object (UTF-8). Every field is required and no other is allowed:

| field | value |
|---|---|
| `format` | 4, the version of this format |
| `model` | the model's name, for people |
| `fingerprint` | of the model that was calibrated, see `fingerprint` (64 hexadecimal digits) |
| `heads` | best first: objects of `layer`, `head` (the query head's number in its layer, from 0) and `mrr`, its mean reciprocal rank of the evidence sentence over all samples |
| `query_tail` | how many of the last prompt tokens are query rows beside the question's |
| `defaults` | QGPM's parameters for requests that do not say, in the names of a request |
| `calibration` | how the heads were chosen: `samples`, `seed`, `lengths` of the contexts (tokens), `text` they are made of, `dtype` the model ran in, and `held_out_mrr`, the chosen heads' joint mean reciprocal rank on the half of the samples that did not order them |
| `tuning` | null where `defaults` are the package's; else how `ropeway tune` found them: `samples` that were asked, of which `held_out` served only the comparison at the end, `split`, `seed`, `kinds` and `lengths` of the samples, `text` they are made of, the `minutes` it was given, `changed` (false: nothing was better than the defaults before), and `gain_evidence` and `gain_heads`, what the defaults add to the log-probability of the answer (nats, against plain) with gold evidence and with the heads under the guard's default, on the held-out samples: `mean`, `low` and `high` of its 95 % interval |
| `relevance` | null for the heads; else what `ropeway tune` found to be the best default, an object of the weights of `heads` and `lexical`, or of one of them |
| `guard` | null for the package's; else the judge of relevance that `ropeway tune` calibrated: `weights` of the signs, in their order, the `bias`, and the `level` of confidence that the default dial asks for |
"""  # noqa: E501 - a table's row is one line

import hashlib
import json
import os
import struct
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config

from cache import whole_file
from positional.guard import Guard
from positional.qgpm import QGPMConfig, QGPMError
from positional.sources.fusion import HEAVIEST

FILE_NAME = "ropeway-heads.json"
QUERY_TAIL = 4
# Keys of a model's config that say who wrote it and how it is loaded, not what it computes.
VOLATILE_KEYS = frozenset({"transformers_version", "_name_or_path", "torch_dtype", "dtype"})
STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

Count = Annotated[int, Field(ge=1)]
Index = Annotated[int, Field(ge=0)]
ReciprocalRank = Annotated[float, Field(ge=0, le=1)]
OwnSource = Literal["heads", "lexical"]  # of the sources, those that every server of the model has
Weight = Annotated[float, Field(gt=0, le=HEAVIEST)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class HeadProfileError(ValueError):
    """A head profile or the model it should fit cannot be used: which file, field and value."""

    def __init__(self, path: Path | str, field: str, message: str, value: object = None) -> None:
        where = f"{path}: {field}" if field else str(path)
        seen = "" if value is None else f" (found {value!r})"
        super().__init__(f"{where}: {message}{seen}")
        self.path = path
        self.field = field
        self.message = message
        self.value = value


@with_config(STRICT)
@dataclass(frozen=True, slots=True)
class Head:
    """One query head by its layer and its number in the layer, and how well it ranks evidence."""

    layer: Index
    head: Index
    mrr: ReciprocalRank


@with_config(STRICT)
@dataclass(frozen=True, slots=True)
class Calibration:
    """How the heads of a profile were chosen."""

    samples: Count
    seed: int
    lengths: Annotated[tuple[Count, ...], Field(min_length=1)]
    text: str
    dtype: str
    held_out_mrr: ReciprocalRank


@with_config(STRICT)
@dataclass(frozen=True, slots=True)
class Gain:
    """A mean of paired differences in nats, and its 95 % interval."""

    mean: float
    low: float
    high: float


@with_config(STRICT)
@dataclass(frozen=True, slots=True)
class Tuning:
    """How the defaults of a profile were found, and what they gain against plain on held-out samples."""

    samples: Count
    held_out: Count
    split: str
    seed: int
    kinds: Annotated[tuple[str, ...], Field(min_length=1)]
    lengths: Annotated[tuple[Count, ...], Field(min_length=1)]
    text: str
    minutes: Annotated[float, Field(gt=0)]
    changed: bool
    gain_evidence: Gain
    gain_heads: Gain


@with_config(STRICT)
@dataclass(frozen=True, slots=True)
class HeadProfile:
    """The heads that relevance is read from (QGPM paper, 4.1 and appendix A), and QGPM's defaults: settings,
    sources and guard."""

    format: Literal[4]
    model: str
    fingerprint: Sha256
    heads: Annotated[tuple[Head, ...], Field(min_length=1)]
    query_tail: Count
    defaults: QGPMConfig
    calibration: Calibration
    tuning: Tuning | None
    relevance: Annotated[dict[OwnSource, Weight], Field(min_length=1)] | None
    guard: Guard | None

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The heads as (layer, head), best first."""
        return tuple((head.layer, head.head) for head in self.heads)

    @property
    def digest(self) -> bytes:
        """sha256 of all that decides which relevance is read: the model, the heads and the query tail."""
        hashed = hashlib.sha256(b"ropeway head profile 1")
        hashed.update(bytes.fromhex(self.fingerprint))
        hashed.update(struct.pack("<2Q", self.query_tail, len(self.heads)))
        for layer, head in self.pairs:
            hashed.update(struct.pack("<2Q", layer, head))
        return hashed.digest()

    def save(self, path: Path) -> None:
        """Writes the file whole or not at all. Raises OSError."""
        whole_file.write(path, json.dumps(asdict(self), indent=2) + "\n")


_ADAPTER: TypeAdapter[HeadProfile] = TypeAdapter(HeadProfile)


def load(path: Path) -> HeadProfile:
    """Reads a profile; raises HeadProfileError naming the file, the field and the value."""
    try:
        return _parse(path.read_bytes(), path)
    except OSError as error:
        raise HeadProfileError(path, "", error.strerror or str(error)) from error


def find(model: Path, explicit: Path | None) -> HeadProfile | None:
    """The profile of the model in a folder: the explicit file, else the folder's own, else a shipped one.

    Raises HeadProfileError where the explicit file or the folder's own belongs to another model.
    """
    own = model / FILE_NAME
    named = explicit if explicit is not None else own if own.is_file() else None
    if named is not None:
        profile, actual = load(named), fingerprint(model)
        if profile.fingerprint != actual:
            raise HeadProfileError(
                named,
                "fingerprint",
                f"was calibrated on {profile.model}, fingerprint {profile.fingerprint}, but {model} has "
                f"fingerprint {actual}; calibrate this model with `ropeway calibrate`",
            )
        return profile
    try:
        actual = fingerprint(model)
    except HeadProfileError:  # nothing to compare by, so nothing shipped can be meant
        return None
    return next((profile for profile in shipped() if profile.fingerprint == actual), None)


def shipped() -> tuple[HeadProfile, ...]:
    """The profiles that come with the package, by file name."""
    folder = files("cache") / "head_profiles"
    entries = sorted(
        (entry for entry in folder.iterdir() if entry.name.endswith(".json")), key=lambda e: e.name
    )
    return tuple(_parse(entry.read_bytes(), entry.name) for entry in entries)


def fingerprint(model: Path) -> str:
    """sha256 (hexadecimal) of a model folder's normalised config and each safetensors file's header and size.

    Normalised: without `VOLATILE_KEYS` at any depth, keys sorted. Weights are not read. Raises
    HeadProfileError where the folder has no readable config.json or no safetensors file.
    """
    hashed = hashlib.sha256(b"ropeway model 1")
    for part in (_normalised_config(model / "config.json"), *_weights(model)):
        hashed.update(struct.pack("<Q", len(part)))
        hashed.update(part)
    return hashed.hexdigest()


def _parse(data: bytes, path: Path | str) -> HeadProfile:
    try:
        profile = _ADAPTER.validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        location = [str(part) for part in first["loc"]]
        value = None if first["type"] in ("missing", "json_invalid") else first["input"]
        refused = first.get("ctx", {}).get("error")
        if isinstance(refused, QGPMError):
            location, value = [*location, refused.field], refused.value
        field = ".".join(location)
        raise HeadProfileError(path, field, first["msg"], value) from error
    if len(set(profile.pairs)) != len(profile.pairs):
        raise HeadProfileError(path, "heads", "names a head twice", profile.pairs)
    return profile


def _normalised_config(path: Path) -> bytes:
    try:
        config = json.loads(path.read_bytes())
    except OSError as error:
        raise HeadProfileError(path, "", error.strerror or str(error)) from error
    except ValueError as error:
        raise HeadProfileError(path, "", f"is not JSON: {error}") from error
    return json.dumps(_without_volatile(config), sort_keys=True, separators=(",", ":")).encode()


def _without_volatile(value: Any) -> Any:
    match value:
        case dict():
            return {key: _without_volatile(item) for key, item in value.items() if key not in VOLATILE_KEYS}
        case list():
            return [_without_volatile(item) for item in value]
        case _:
            return value


def _weights(model: Path) -> list[bytes]:
    paths = sorted(model.glob("*.safetensors"), key=lambda path: path.name)
    if not paths:
        raise HeadProfileError(model, "", "has no *.safetensors file")
    return [struct.pack("<Q", path.stat().st_size) + _header(path) for path in paths]


def _header(path: Path) -> bytes:
    """The JSON header of a safetensors file: its length as 8 bytes, little endian, then itself."""
    size = os.path.getsize(path)
    with path.open("rb") as file:
        prefix = file.read(8)
        length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else size
        if length > size - 8:
            raise HeadProfileError(path, "", "is not a safetensors file")
        return file.read(length)
