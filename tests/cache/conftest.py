"""vLLM, imported before the first test: some of its packages warn about themselves while they load."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import cache.positional_state
    import cache.scheduler  # noqa: F401
