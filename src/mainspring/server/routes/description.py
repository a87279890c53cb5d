"""`/openapi.json`: what can be asked here. It names the handlers of the application and what they take, which is
nothing for strangers."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response

from ..access import Role, needs

router = APIRouter(dependencies=[Depends(needs(Role.VIEWER))])


@router.get("/openapi.json", include_in_schema=False)
async def get_description(request: Request) -> Response:
    document: dict[str, Any] = request.app.openapi()
    if prefix := request.scope.get("root_path", "").rstrip("/"):  # mounted into another application
        document["servers"] = [{"url": prefix}]
    return JSONResponse(document)
