"""Where our middleware stands among vLLM's, whose app may have built its stack already."""

from typing import Any

from fastapi import FastAPI
from starlette.middleware import Middleware


def put_first(app: FastAPI, middleware: Any, **options: Any) -> None:
    """Before all that the app has: it sees every request and every answer."""
    app.user_middleware.insert(0, Middleware(middleware, **options))
    app.middleware_stack = None  # the first request builds it


def put_last(app: FastAPI, middleware: Any, **options: Any) -> None:
    """Behind all that the app has: who has no API key does not come so far."""
    app.user_middleware.append(Middleware(middleware, **options))
    app.middleware_stack = None  # the first request builds it
