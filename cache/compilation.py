"""What vLLM compiles when a request first needs it."""

import torch._dynamo.config


def forgive_failures() -> None:
    """Let a helper that cannot be compiled run as it is, in this process; a warning says so.

    vLLM compiles some of its sampler's functions at the first request that asks for them (log-probabilities),
    on eager servers too. Without a C++ compiler, or on a full disk, that request would end the engine. The
    model itself is compiled as one graph, whose failure still stops the start.
    """
    torch._dynamo.config.suppress_errors = True
