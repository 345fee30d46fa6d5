import json
import struct
from pathlib import Path
from typing import Any

import pytest

from cache import head_profile
from cache.head_profile import HeadProfileError
from positional.guard import SIGNS
from server import default_model

VALID: dict[str, Any] = {
    "format": 4,
    "model": "a model",
    "fingerprint": "ab" * 32,
    "heads": [{"layer": 9, "head": 0, "mrr": 0.8}, {"layer": 15, "head": 6, "mrr": 0.75}],
    "query_tail": 4,
    "defaults": {
        "k_broad": 12,
        "t_broad": 2.0,
        "k_sharp": 6,
        "t_sharp": 0.5,
        "score_low": 0.3,
        "stride_floor": 0.1,
        "anchor_ratio": 0.1,
        "gate_width": 0.5,
    },
    "calibration": {
        "samples": 64,
        "seed": 0,
        "lengths": [500, 1000],
        "text": "a text",
        "dtype": "float32",
        "held_out_mrr": 0.8,
    },
    "tuning": None,
    "relevance": None,
    "guard": None,
}
TUNING: dict[str, Any] = {
    "samples": 90,
    "held_out": 45,
    "split": "tuning",
    "seed": 0,
    "kinds": ["single", "indirect"],
    "lengths": [500, 1000],
    "text": "a text",
    "minutes": 40.0,
    "changed": True,
    "gain_evidence": {"mean": 1.5, "low": 0.5, "high": 2.5},
    "gain_heads": {"mean": -0.5, "low": -1.5, "high": 0.5},
}


def write(path: Path, **changed: Any) -> Path:
    path.write_text(json.dumps({**VALID, **changed}))
    return path


def model_folder(folder: Path, config: dict[str, Any] | None = None, size: int = 64) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config or {"model_type": "llama", "hidden_size": 8}))
    header = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(size))
    return folder


def test_a_profile_reads_back_as_it_was_written(tmp_path: Path) -> None:
    profile = head_profile.load(write(tmp_path / "heads.json"))

    profile.save(tmp_path / "again.json")

    assert head_profile.load(tmp_path / "again.json") == profile
    assert json.loads((tmp_path / "again.json").read_text()) == VALID
    assert profile.pairs == ((9, 0), (15, 6))
    assert profile.defaults.k_broad == 12


def test_a_profile_says_how_its_defaults_were_tuned(tmp_path: Path) -> None:
    profile = head_profile.load(write(tmp_path / "heads.json", tuning=TUNING))

    profile.save(tmp_path / "again.json")

    assert json.loads((tmp_path / "again.json").read_text())["tuning"] == TUNING
    assert profile.tuning is not None
    assert profile.tuning.gain_evidence.low == 0.5


def test_a_profile_says_what_ranks_by_default(tmp_path: Path) -> None:
    profile = head_profile.load(write(tmp_path / "heads.json", relevance={"heads": 1, "lexical": 2.5}))

    profile.save(tmp_path / "again.json")

    assert profile.relevance == {"heads": 1.0, "lexical": 2.5}
    assert head_profile.load(tmp_path / "again.json") == profile
    # What the heads say of a document is the same whoever else is asked.
    assert profile.digest == head_profile.load(write(tmp_path / "heads.json")).digest


def test_saving_leaves_no_partial_file_where_the_target_cannot_be_replaced(tmp_path: Path) -> None:
    profile = head_profile.load(write(tmp_path / "heads.json"))
    (tmp_path / "folder").mkdir()

    with pytest.raises(OSError, match="folder"):
        profile.save(tmp_path / "folder")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "heads.json"]


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"format": 3}, "format"),
        ({"relevance": {}}, "relevance"),
        ({"relevance": {"embedding": 1.0}}, "relevance.embedding.[key]"),
        ({"relevance": {"heads": 0.0}}, "relevance.heads"),
        ({"relevance": {"heads": True}}, "relevance.heads"),
        ({"relevance": {"lexical": 1e308}}, "relevance.lexical"),
        ({"fingerprint": "no"}, "fingerprint"),
        ({"heads": []}, "heads"),
        ({"heads": [{"layer": -1, "head": 0, "mrr": 0.5}]}, "heads.0.layer"),
        ({"heads": [{"layer": True, "head": 0, "mrr": 0.5}]}, "heads.0.layer"),
        ({"heads": [{"layer": 1, "head": "0", "mrr": 0.5}]}, "heads.0.head"),
        ({"heads": [{"layer": 1, "head": 0, "mrr": 1.5}]}, "heads.0.mrr"),
        ({"heads": [{"layer": 1, "head": 0, "mrr": 0.5, "weight": 1}]}, "heads.0.weight"),
        ({"heads": [{"layer": 1, "head": 0, "mrr": 0.5}] * 2}, "heads"),
        ({"query_tail": 0}, "query_tail"),
        ({"defaults": {**VALID["defaults"], "k_broads": 3}}, "defaults.k_broads"),
        ({"defaults": {**VALID["defaults"], "t_broad": "warm"}}, "defaults.t_broad"),
        ({"defaults": {**VALID["defaults"], "stride_floor": 0}}, "defaults.stride_floor"),
        ({"calibration": {**VALID["calibration"], "samples": 0}}, "calibration.samples"),
        ({"guard": {"weights": [1.0], "bias": 0.0, "level": 0.5}}, "guard"),
        ({"guard": {"weights": [0.0] * len(SIGNS), "bias": 0.0, "level": 1.5}}, "guard"),
        ({"guard": {"weights": [0.0] * len(SIGNS), "bias": 0.0}}, "guard.level"),
        ({"tuning": {**TUNING, "held_out": 0}}, "tuning.held_out"),
        ({"tuning": {**TUNING, "lengths": []}}, "tuning.lengths"),
        ({"tuning": {**TUNING, "changed": 1}}, "tuning.changed"),
        ({"tuning": {**TUNING, "gain_heads": {"mean": 0.0, "low": 0.0}}}, "tuning.gain_heads.high"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_bad_field_is_refused_by_file_and_name(tmp_path: Path, changed: dict[str, Any], field: str) -> None:
    path = write(tmp_path / "heads.json", **changed)

    with pytest.raises(HeadProfileError) as caught:
        head_profile.load(path)

    assert caught.value.field == field
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("missing", sorted(VALID))
def test_every_field_is_required(tmp_path: Path, missing: str) -> None:
    path = tmp_path / "heads.json"
    path.write_text(json.dumps({name: value for name, value in VALID.items() if name != missing}))

    with pytest.raises(HeadProfileError) as caught:
        head_profile.load(path)

    assert caught.value.field == missing


def test_every_default_is_required(tmp_path: Path) -> None:
    for missing in VALID["defaults"]:
        defaults = {name: value for name, value in VALID["defaults"].items() if name != missing}
        with pytest.raises(HeadProfileError, match=missing):
            head_profile.load(write(tmp_path / "heads.json", defaults=defaults))


def test_what_is_no_json_or_not_there_is_refused_by_file(tmp_path: Path) -> None:
    (tmp_path / "heads.json").write_text("{")

    for name in ("heads.json", "absent.json"):
        with pytest.raises(HeadProfileError, match=name):
            head_profile.load(tmp_path / name)


def test_the_digest_follows_what_relevance_is_read_from_and_nothing_else(tmp_path: Path) -> None:
    def digest(**changed: Any) -> bytes:
        return head_profile.load(write(tmp_path / "heads.json", **changed)).digest

    first = digest()
    assert digest(model="another name", defaults={**VALID["defaults"], "k_broad": 13}) == first
    assert digest(tuning=TUNING) == first
    assert digest(heads=VALID["heads"][::-1]) != first
    assert digest(heads=VALID["heads"][:1]) != first
    assert digest(query_tail=5) != first
    assert digest(fingerprint="cd" * 32) != first


def test_the_fingerprint_ignores_who_wrote_the_config(tmp_path: Path) -> None:
    plain = {"model_type": "llama", "text_config": {"hidden_size": 8}}
    signed = {
        "text_config": {"torch_dtype": "float32", "hidden_size": 8},
        "transformers_version": "5.16.0",
        "_name_or_path": "somewhere",
        "dtype": "bfloat16",
        "model_type": "llama",
    }

    assert head_profile.fingerprint(model_folder(tmp_path / "a", plain)) == head_profile.fingerprint(
        model_folder(tmp_path / "b", signed)
    )


def test_the_fingerprint_follows_the_config_and_the_weight_files(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "model")
    seen = {head_profile.fingerprint(folder)}

    seen.add(head_profile.fingerprint(model_folder(folder, {"model_type": "llama", "hidden_size": 9})))
    seen.add(head_profile.fingerprint(model_folder(folder, size=65)))
    (folder / "extra.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    seen.add(head_profile.fingerprint(folder))

    assert len(seen) == 4


def test_a_folder_that_holds_no_model_has_no_fingerprint(tmp_path: Path) -> None:
    with pytest.raises(HeadProfileError, match=r"config\.json"):
        head_profile.fingerprint(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(HeadProfileError, match="safetensors"):
        head_profile.fingerprint(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 9)
    with pytest.raises(HeadProfileError, match="is not a safetensors file"):
        head_profile.fingerprint(tmp_path)


def test_an_explicit_file_comes_before_the_folders_own(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "model")
    actual = head_profile.fingerprint(folder)
    write(folder / head_profile.FILE_NAME, model="own", fingerprint=actual)
    explicit = write(tmp_path / "explicit.json", model="explicit", fingerprint=actual)

    found = [head_profile.find(folder, explicit), head_profile.find(folder, None)]

    assert [profile.model for profile in found if profile is not None] == ["explicit", "own"]


@pytest.mark.parametrize("explicit", [True, False])
def test_a_profile_of_another_model_is_refused_naming_both(tmp_path: Path, explicit: bool) -> None:
    folder = model_folder(tmp_path / "model")
    path = write(tmp_path / "explicit.json" if explicit else folder / head_profile.FILE_NAME)

    with pytest.raises(HeadProfileError) as caught:
        head_profile.find(folder, path if explicit else None)

    assert VALID["fingerprint"] in str(caught.value)
    assert head_profile.fingerprint(folder) in str(caught.value)


def test_an_unknown_model_has_no_profile(tmp_path: Path) -> None:
    assert head_profile.find(model_folder(tmp_path / "model"), None) is None
    assert head_profile.find(tmp_path, None) is None


def test_the_default_model_has_a_shipped_profile() -> None:
    profile = head_profile.find(default_model.fetch(progress=False), None)

    assert profile is not None
    assert profile.model == default_model.NAME
