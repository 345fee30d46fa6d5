"""The error of a request that cannot be served as asked."""

from vllm.exceptions import VLLMValidationError


class RequestError(VLLMValidationError):
    """A request that cannot be served as asked: HTTP 400, naming the field.

    Half of a surrogate pair, which a client may put into a name, is told as an escape: it could not be sent.
    """

    def __init__(self, message: str, parameter: str) -> None:
        super().__init__(_sendable(message), parameter=_sendable(parameter))

    def __str__(self) -> str:
        return str(self.args[0])


def _sendable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()
