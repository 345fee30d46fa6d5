"""The error of a request that cannot be served as asked."""

from vllm.exceptions import VLLMValidationError


class RequestError(VLLMValidationError):
    """A request that cannot be served as asked: HTTP 400, naming the field."""

    def __init__(self, message: str, parameter: str) -> None:
        super().__init__(message, parameter=parameter)

    def __str__(self) -> str:
        return str(self.args[0])
