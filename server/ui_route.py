"""The page at `/ui`: static files of the package, under a policy that lets nothing else in."""

from os import PathLike, stat_result
from pathlib import Path

from fastapi import APIRouter, FastAPI
from fastapi.responses import RedirectResponse
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

PATH = "/ui"
FOLDER = Path(__file__).parent / "ui"
# Own scripts and styles only, no inline ones, no markup made from text, no frame around the page, and
# nowhere to send a form or a document but this server.
_POLICY = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
)
HEADERS = {
    "Content-Security-Policy": "; ".join(_POLICY),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    # Asked for again each time, by its ETag: a page of an older server must not meet a newer one.
    "Cache-Control": "no-cache",
}


class GuardedFiles(StaticFiles):
    """Static files, each with `HEADERS`."""

    def file_response(
        self,
        full_path: str | PathLike[str],
        stat_result: stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        """The file, or 304 where the client has it."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers.update(HEADERS)
        return response


def add_page(app: FastAPI) -> None:
    """Serve the page."""
    router = APIRouter()

    @router.get(PATH, include_in_schema=False)
    async def get_page() -> RedirectResponse:
        """To the folder, relatively, so that a proxy may serve us below a path of its own."""
        return RedirectResponse(f"{PATH.removeprefix('/')}/", headers=HEADERS)

    app.include_router(router)
    app.mount(PATH, GuardedFiles(directory=FOLDER, html=True), name="ui")
