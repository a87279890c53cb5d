"""Which role a job asks for of those who steer it over HTTP: run, change, pause, cancel, or remove it.

One rule for all of that: whoever may not run a job must not decide either when it does not run, what it does when it
runs, or who may run it.
"""

from __future__ import annotations

from ..model.job import Job
from ..model.roles import Role


def role_for(job: Job) -> Role:
    """At least operator: a job can ask for more, never for less. A role that this release does not know is the
    highest, so that a newer release's demand is never taken for none."""
    wanted = job.spec.trigger_role
    if wanted is None:
        return Role.OPERATOR
    known = Role(wanted) if wanted in list(Role) else Role.ADMIN
    return known if known.covers(Role.OPERATOR) else Role.OPERATOR


def may_steer(role: Role, job: Job) -> bool:
    """Whether who has this role may run, change, pause, cancel or remove this job, and what it has alive."""
    return role.covers(role_for(job))
