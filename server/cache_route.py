"""`GET /v1/cache`: where cache memory goes."""

from http import HTTPStatus

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from server.answers import Cache
from server.cache_account import CacheAccount
from server.error_response import OwnRoute
from server.openapi import errors

router = APIRouter(route_class=OwnRoute)


@router.get("/v1/cache", responses={HTTPStatus.OK.value: {"model": Cache}, **errors()})
async def get_cache(request: Request) -> JSONResponse:
    """Pools in bytes, capacity, hit tokens by kind, evictions, and the memo of relevance.

    Bytes are those of one tensor-parallel rank. Of a pool, used + cached + free + reserved is what was
    allocated: used is held by running requests, cached can be evicted, reserved is null block and padding.
    """
    account: CacheAccount = request.app.state.ropeway_cache
    return JSONResponse(await account.read())
