"""The cookies of the dashboard: no script can read them, and no form of another site brings them along."""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.responses import Response

from ..access import guard_of


def set_cookie(response: Response, connection: HTTPConnection, name: str, value: str, seconds: int | None) -> None:
    """Without seconds the cookie ends with the browser."""
    response.set_cookie(
        name,
        value,
        max_age=seconds,
        path=connection.scope.get("root_path", "") or "/",
        secure=guard_of(connection).is_https(connection),
        httponly=True,
        samesite="lax",
    )


def drop_cookie(response: Response, connection: HTTPConnection, name: str) -> None:
    set_cookie(response, connection, name, "", 0)
