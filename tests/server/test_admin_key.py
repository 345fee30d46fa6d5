"""The administrator's key."""

from argparse import ArgumentTypeError

import pytest

from server.admin_key import VARIABLE, AdminKey


@pytest.mark.parametrize("text", ["secret", "geheimer Schlüssel"])
def test_only_the_whole_key_opens(text: str) -> None:
    key = AdminKey.of(text)
    sent = text.encode().decode("latin-1")  # as a header's bytes are read
    assert key.opens(sent)
    for other in (None, "", sent[:-1], sent + " ", sent.upper()):
        assert not key.opens(other)


def test_nothing_prints_the_key() -> None:
    key = AdminKey.of("secret")
    assert "secret" not in repr(key)
    assert key.digest.hex() not in repr(key)


def test_an_empty_key_is_none_of_the_environment_and_refused_as_a_flag() -> None:
    assert AdminKey.of_environment({}) is None
    assert AdminKey.of_environment({VARIABLE: ""}) is None
    assert AdminKey.of_environment({VARIABLE: "secret"}) == AdminKey.of("secret")
    with pytest.raises(ArgumentTypeError, match="empty"):
        AdminKey.of("")
