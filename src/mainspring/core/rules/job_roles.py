"""The role that a job asks of those who steer it: the one rule for every route, bulk action and page.

It is the highest of what code declares, what operators demand, and what the own job of its handler (the one with the
handler's name) asks for. `JobSpec.trigger_role` is the highest of the first two. The third is judged whenever the role
is asked for, so jobs that were made of a handler earlier follow when its own job is hardened, in every process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...model.job import Job
from ...model.values.access import Role, highest_role


def handlers_to_read(jobs: Iterable[Job]) -> list[str]:
    """The names of the jobs that must be read before the roles of these can be judged."""
    return sorted({job.spec.handler for job in jobs if job.spec.handler != job.name})


def own_job(job: Job, known: Mapping[str, Job]) -> Job | None:
    """The own job of the handler, if there is one among these."""
    own = known.get(job.spec.handler)
    return own if own is not None and own.spec.handler == own.name else None


def demanded_role(job: Job, own: Job | None) -> str | None:
    """The role by its name, as the job shows it; None if nothing demands one."""
    return highest_role(job.spec.trigger_role, None if own is None else own.spec.trigger_role)


def role_for(job: Job, own: Job | None) -> Role:
    """At least operator: a job can demand more, never less. An unknown role counts as the highest, so that the
    demand of a newer release is never ignored."""
    wanted = demanded_role(job, own)
    if wanted is None:
        return Role.OPERATOR
    known = Role(wanted) if wanted in list(Role) else Role.ADMIN
    return known if known.covers(Role.OPERATOR) else Role.OPERATOR
