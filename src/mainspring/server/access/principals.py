"""Who makes a request, once that is known; and what a single job may ask of them."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from ...core.rules import job_commands
from ...core.rules.job_commands import role_for
from ...model.job import Job
from ...model.values.access import Role
from .refusals import forbidden

Kind: TypeAlias = Literal["loopback", "token", "jwt"]


class Principal(msgspec.Struct, frozen=True):
    """`id` is that of an API token; tokens may share a name."""

    name: str
    role: Role
    kind: Kind
    id: str = ""

    @property
    def actor(self) -> str:
        """The name for audit records. The kind is part of it: nobody can pass for another by a name they chose.

        >>> Principal("ci", Role.OPERATOR, "token", "3f9a").actor, Principal("ada", Role.ADMIN, "jwt").actor
        ('token:ci/3f9a', 'jwt:ada')
        """
        if self.kind == "loopback":
            return "loopback"
        return f"{self.kind}:{self.name}/{self.id}" if self.id else f"{self.kind}:{self.name}"


LOOPBACK = Principal("loopback", Role.ADMIN, "loopback")
"""Somebody on this machine, while no authentication is configured."""


def check_role(principal: Principal, needed: Role) -> None:
    if not principal.role.covers(needed):
        raise forbidden("role_too_low", f"this needs the role {needed}; {principal.actor} has {principal.role}")


def may_steer(principal: Principal, job: Job) -> None:
    """Refuse who may not steer this job, in whichever way: see `core.rules.job_commands`."""
    if not covers(principal, job):
        message = f"job {job.name!r} needs the role {role_for(job)}; {principal.actor} has {principal.role}"
        raise forbidden("role_too_low", message)


def covers(principal: Principal, job: Job) -> bool:
    """Whether they may steer this job."""
    return job_commands.may_steer(principal.role, job)
