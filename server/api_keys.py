"""The API keys that vLLM checks, to tell their holders apart."""

import secrets
from argparse import Namespace
from dataclasses import dataclass, field
from hashlib import sha256

from vllm import envs


@dataclass(frozen=True, slots=True)
class ApiKeys:
    """Keys, kept as digests only, so that no log can print them."""

    digests: tuple[bytes, ...] = field(repr=False)

    @staticmethod
    def of(args: Namespace) -> "ApiKeys":
        """The keys that vLLM takes: of `--api-key`, else of the environment."""
        keys = args.api_key or [envs.VLLM_API_KEY]
        return ApiKeys(tuple(sha256(key.encode()).digest() for key in keys if key))

    def holder(self, authorization: str | None) -> bytes | None:
        """Whose key a header holds, in a time that does not depend on the keys; None without a valid one.

        Paths that vLLM does not guard may come without one, and bring any.
        """
        scheme, _, given = (authorization or "").partition(" ")
        digest = sha256(given.encode()).digest()
        found = None
        for known in self.digests:
            if secrets.compare_digest(digest, known):
                found = known
        return found if scheme.lower() == "bearer" else None
