"""The error of a model that is not served."""


class UnsupportedModelError(RuntimeError):
    """The model, or one of its layers, is not covered, or does other than its config says; it is named."""
