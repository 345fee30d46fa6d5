"""Makes vLLM know our architecture; every process that reads configurations or builds models calls it."""

from vllm.model_executor.models import ModelRegistry

from cache.architecture_config import NAME

ARCHITECTURES = (NAME, "SmolLM3ForCausalLM")


def register_architectures() -> None:
    """Register the model class, and the configuration class with transformers; may be called again.

    The model class is named, not imported: vLLM imports it where it builds it.
    """
    import cache.ropeway_config  # noqa: F401 - registers the configuration

    for architecture in ARCHITECTURES:
        ModelRegistry.register_model(architecture, "cache.architecture:RopewayForCausalLM")
