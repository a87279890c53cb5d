"""Principals: who makes a request, which jobs they may steer, and how a request is refused."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from ...core.views.job import JobView
from ...model.errors import MainspringError
from ...model.job import Job
from ...model.values.access import Role

Kind: TypeAlias = Literal["loopback", "token", "jwt"]
AUTHENTICATE = {"WWW-Authenticate": 'Bearer realm="mainspring"'}


class Refused(MainspringError):
    """A request that is refused, with all that the answer says. The message never repeats a credential.

    >>> Refused(403, "role_too_low", "this needs the role admin").as_problem()
    {'error': {'code': 'role_too_low', 'message': 'this needs the role admin'}}
    """

    def __init__(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(status, code, message, headers)
        self.status, self.code, self.message = status, code, message
        self.headers = {**(AUTHENTICATE if status == 401 else {}), **(headers or {})}

    def __str__(self) -> str:
        return self.message

    def as_problem(self) -> dict[str, Any]:
        """The body of the answer."""
        return {"error": {"code": self.code, "message": self.message}}


class Unproven(Exception):
    """Invalid credentials; the message says why without repeating them. Becomes a 401 and counts as a failed login."""


def unauthenticated(code: str, message: str) -> Refused:
    return Refused(401, code, message)


def forbidden(code: str, message: str) -> Refused:
    return Refused(403, code, message)


class Principal(msgspec.Struct, frozen=True):
    """Who makes a request. `id` is that of an API token; tokens may share a name."""

    name: str
    role: Role
    kind: Kind
    id: str = ""

    @property
    def actor(self) -> str:
        """The name for audit records. It includes the kind, so that a chosen name cannot imitate another principal.

        >>> Principal("ci", Role.OPERATOR, "token", "3f9a").actor, Principal("ada", Role.ADMIN, "jwt").actor
        ('token:ci/3f9a', 'jwt:ada')
        """
        if self.kind == "loopback":
            return "loopback"
        return f"{self.kind}:{self.name}/{self.id}" if self.id else f"{self.kind}:{self.name}"


LOOPBACK = Principal("loopback", Role.ADMIN, "loopback")
"""A user of this machine, while no authentication is configured."""


ROLE_LIMIT = "x-role-limit"
"""The header by which a request gives up rights: it is judged as if its principal had no higher role than this."""


def limited(principal: Principal, limit: str | None) -> Principal:
    """The principal with no more rights than the request asks for.

    >>> limited(LOOPBACK, "viewer").role, limited(Principal("ci", Role.VIEWER, "token"), "admin").role
    (<Role.VIEWER: 'viewer'>, <Role.VIEWER: 'viewer'>)
    """
    if limit is None:
        return principal
    if limit not in list(Role):
        message = f"X-Role-Limit: {limit[:80]!r} is not a role; allowed: {', '.join(Role)}"
        raise Refused(400, "invalid_request", message)
    lowest = min(principal.role, Role(limit), key=lambda role: role.rank)
    return msgspec.structs.replace(principal, role=lowest)


def check_role(principal: Principal, needed: Role) -> None:
    if not principal.role.covers(needed):
        raise forbidden("role_too_low", f"this needs the role {needed}; {principal.actor} has {principal.role}")


def may_steer(principal: Principal, job: Job, needed: Role) -> None:
    """Refuse principals whose role is too low to steer this job, which asks for the role `needed`."""
    if not principal.role.covers(needed):
        message = f"job {job.name!r} needs the role {needed}; {principal.actor} has {principal.role}"
        raise forbidden("role_too_low", message)


def covers(principal: Principal, view: JobView) -> bool:
    """Whether the principal may steer this job."""
    return principal.role.covers(view.required_role)
