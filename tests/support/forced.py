"""The logits processor of the tests' engines, by name."""

PROCESSOR = "tests.support.forcing:ForceTokens"
"""What `--logits-processors` takes."""

STEP_SECONDS = "ROPEWAY_TESTS_STEP_SECONDS"
"""Environment variable: how long each step of an engine with `PROCESSOR` sleeps, so that readers keep up."""
