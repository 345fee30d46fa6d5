"""The administrator's key."""

import os
import secrets
from argparse import ArgumentTypeError
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

HEADER = "X-Admin-Key"
VARIABLE = "ROPEWAY_ADMIN_KEY"


@dataclass(frozen=True, slots=True)
class AdminKey:
    """A key, kept as a digest only, so that no log can print it."""

    digest: bytes = field(repr=False)

    @staticmethod
    def of(text: str) -> "AdminKey":
        """The key of a command line; raises ArgumentTypeError for an empty one."""
        if not text:
            raise ArgumentTypeError("the key must not be empty")
        return AdminKey(sha256(os.fsencode(text)).digest())

    @staticmethod
    def of_environment(environment: Mapping[str, str] = os.environ) -> "AdminKey | None":
        """The key that the environment gives; None without one, which an empty one is."""
        text = environment.get(VARIABLE)
        return AdminKey.of(text) if text else None

    def opens(self, header: str | None) -> bool:
        """Whether a header's value is the key, in a time that does not depend on the key."""
        given = sha256((header or "").encode("latin-1")).digest()  # as the bytes that came
        return secrets.compare_digest(given, self.digest)
