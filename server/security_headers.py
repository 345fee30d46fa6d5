"""What browsers are told about the answers of our own routes."""

from collections.abc import Sequence

from fastapi import FastAPI
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.error_response import OwnRoute
from server.middleware import put_first

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",  # answers hold a tenant's sentences, or change from second to second
}


class SecurityHeaders:
    """ASGI middleware: `HEADERS` on every answer of `routes`, errors included, unless it has its own."""

    def __init__(self, app: ASGIApp, routes: Sequence[OwnRoute]) -> None:
        self._app = app
        self._paths = [route.path_regex for route in routes]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http" or not self._is_own(scope):
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, with_headers)

    def _is_own(self, scope: Scope) -> bool:
        path: str = scope["path"].removeprefix(scope.get("root_path", ""))
        return any(pattern.match(path) for pattern in self._paths)


def secure_own_routes(app: FastAPI) -> None:
    """Give those routes of ours that the app has by now their headers."""
    put_first(app, SecurityHeaders, routes=[route for route in app.routes if isinstance(route, OwnRoute)])
