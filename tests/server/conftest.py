"""vLLM, imported before the first test: some of its packages warn about themselves while they load."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import server.rope_start  # noqa: F401
