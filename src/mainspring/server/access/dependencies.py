"""What routes declare: the role they need, or that anyone may ask.

A route says `Depends(needs(Role.OPERATOR))`, one below `/_sys` also `Depends(sys_access)`, one for strangers
`Depends(anyone)`, and the one for incoming hooks, whose signature is their credential, `Depends(signature)`. A route
that says none of these is found by `required_role`, which the access matrix fails on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import cache
from typing import Any, Literal, TypeAlias

from fastapi.dependencies.models import Dependant
from fastapi.requests import HTTPConnection, Request
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.types import Scope

from ...model.values.access import Role
from ..json_body import JsonRequest
from .guard import Guard
from .principals import Principal

Required: TypeAlias = Role | Literal["anyone", "signature"]

_MARK = "mainspring_required_role"
_JUDGED = "mainspring.judged"


@cache
def needs(role: Role, *, cookies: bool = False) -> Callable[[HTTPConnection], Awaitable[Principal]]:
    """A dependency that returns the principal of a request, or refuses the request if the role is too low. Routes of
    the dashboard accept the `cookies` of its login page too."""

    async def principal(connection: HTTPConnection) -> Principal:
        judged = _judged(connection)
        if principal not in judged:
            judged[principal] = await guard_of(connection).admit(connection, role, cookies=cookies)
        found: Principal = judged[principal]
        return found

    setattr(principal, _MARK, role)
    return principal


async def anyone(connection: HTTPConnection) -> None:
    """For health checks: any address of `api_allow` may ask. Credentials are not read, so wrong ones do not count as
    failed logins, and a database that is away does not make a living process look dead."""
    guard_of(connection).check_address(connection)


setattr(anyone, _MARK, "anyone")


async def signature(connection: HTTPConnection) -> None:
    """For incoming hooks: a request with a valid signature may come from any address of `hooks_allow`. The route
    verifies the signature, because that needs the body."""
    guard_of(connection).check_hook_address(connection)


setattr(signature, _MARK, "signature")


async def sys_access(connection: HTTPConnection) -> None:
    """Admit addresses in `sys_allow` only. The role is checked in addition."""
    guard_of(connection).check_sys_address(connection)


def _judged(connection: HTTPConnection) -> dict[Any, Any]:
    """What `GuardedRoute` found out about this request, so that credentials are not looked up twice, and wrong ones are
    not counted twice."""
    judged: dict[Any, Any] = connection.scope.setdefault(_JUDGED, {})
    return judged


def is_admitted(scope: Scope) -> bool:
    """Whether the request has a principal: so far, none for one that is to be judged by its body."""
    return any(isinstance(found, Principal) for found in scope.get(_JUDGED, {}).values())


class GuardedRoute(APIRoute):
    """Judges the address, the credentials and the role before the body is read. FastAPI itself reads the body first and
    resolves dependencies after, so strangers could keep it waiting for a body that they never send."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        route = super().get_route_handler()
        checks = list(dict.fromkeys(call for call in _calls(self) if call is sys_access or hasattr(call, _MARK)))

        async def handler(request: Request) -> Response:
            for check in checks:
                await check(request)
            return await route(request if self.body_field is None else JsonRequest(request.scope, request.receive))

        return handler


def guard_of(connection: HTTPConnection) -> Guard:
    guard = getattr(connection.app.state, "guard", None)
    if not isinstance(guard, Guard):  # without a guard, nothing may be admitted
        raise RuntimeError("the application has no guard: set app.state.guard = Guard(app.settings.security, app)")
    return guard


# --- what a route declares --------------------------------------------------------------------------------------


def required_role(route: Any) -> Required | None:
    """What the route declares, the highest if it does so more than once; None when it declares nothing."""
    found = [mark for call in _calls(route) if (mark := getattr(call, _MARK, None)) is not None]
    roles = [mark for mark in found if isinstance(mark, Role)]
    if roles:
        return max(roles, key=lambda role: role.rank)
    return found[0] if found else None


def limited_to_sys(route: Any) -> bool:
    """Whether the route is open to the addresses of `sys_allow` only."""
    return any(call is sys_access for call in _calls(route))


def access_extra(route: Any) -> dict[str, str]:
    """What the OpenAPI document says of the route's access; empty when it declares nothing."""
    role = required_role(route)
    return {} if role is None else {"x-required-role": str(role)}


def _calls(route: Any) -> Iterator[Any]:
    """Of a route as the application holds it, or as FastAPI's `iter_route_contexts` shows it; others have none."""
    dependant = getattr(route, "dependant", None)
    if isinstance(dependant, Dependant):
        yield from _dependency_calls(dependant)


def _dependency_calls(dependant: Dependant) -> Iterator[Any]:
    for inner in dependant.dependencies:
        yield inner.call
        yield from _dependency_calls(inner)
