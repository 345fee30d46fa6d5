from pathlib import Path

from loadtests.quality.setting import identity


def test_data_sets_of_one_name_are_told_apart_by_what_they_hold(tmp_path: Path) -> None:
    names = []
    for folder, text in (("a", "one"), ("b", "two"), ("c", "one")):
        path = tmp_path / folder / "validation.jsonl"
        path.parent.mkdir()
        path.write_text(text)
        names.append(identity(path))
    assert names[0] == names[2] != names[1]
    assert all(name.startswith("validation.jsonl, ") for name in names)
