"""What Ropeway adds to vLLM's OpenAI app, apart from the engine behind it."""

from argparse import Namespace

from fastapi import FastAPI

from server import admin, cache_route, readiness, routes
from server.body_limit import limit_bodies
from server.drain import Drain, guard
from server.field_refusal import refuse_fields
from server.limit_response import count_limits
from server.limits import Limits
from server.metrics import Metrics
from server.openapi import tell_fields
from server.parse_error import shape_parse_errors
from server.refusal import count_refusals
from server.security_headers import secure_own_routes
from server.ui_route import add_page


def extend(app: FastAPI, args: Namespace, metrics: Metrics, drain: Drain) -> None:
    """Add routes, middleware and error handlers.

    From the outside in: the drain's gate, what vLLM has (its check of API keys among it), the limit of
    bodies, and the refusal of our fields, which reads bodies.
    """
    guard(app, drain)
    limit_bodies(app, Limits.of(args).body_bytes, lambda: metrics.limit("body"))
    refuse_fields(app, metrics.refuse)
    count_refusals(app, metrics.refuse)
    count_limits(app, metrics.limit)
    shape_parse_errors(app)
    app.include_router(routes.router)
    app.include_router(cache_route.router)
    app.include_router(admin.router)
    app.include_router(readiness.router)
    secure_own_routes(app)
    tell_fields(app)
    if not args.no_ui:
        add_page(app)
    app.state.ropeway_admin_key = args.admin_key
