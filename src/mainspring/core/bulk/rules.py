"""What a bulk does next: pure functions. The id of a new execution depends only on the bulk and the item, so a page
that is handled again finds the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ...model.bulk import BulkItemRow, BulkPage, BulkRow, BulkState, ItemStatus
from ...model.errors import AlreadyRunning, CommandRefused, InvalidValue, MainspringError, NotFound
from ...model.execution import ExecutionRow, State
from ...model.job import Job
from ...model.time.instants import SECOND, Micros
from ...model.values.access import Role
from ...model.values.ids import follow_up_id
from ..commands.trigger import parent_of
from ..rules import job_roles

PAGE = 250
"""Items of one page: few enough that no step blocks the event loop, and enough that round trips do not matter."""
PAGE_SECONDS = 0.5
"""How long one page of a bulk with a pace takes, unless the pace permits only one item in a longer time."""
TAKEOVER = 3 * SECOND
"""A bulk that nobody has advanced for this long has lost its driver."""
MOST_CODES = 20
MAKES_EXECUTIONS = ("retry", "edit")
"""Actions whose items become new executions, which a probe can watch."""
PROBE = 5
"""How many executions the forms propose to try first."""
DONE_WORDS = {
    **{"pause": "paused", "resume": "resumed", "cancel": "cancelled", "retry": "retried", "delete": "removed"},
    **{"edit": "retried", "mute": "muted", "unmute": "unmuted"},
}


class RoleTooLow(MainspringError):
    """The caller may not steer this job."""

    def __init__(self, job: str, needed: str, has: str) -> None:
        super().__init__(job, needed, has)
        self.job, self.needed, self.has = job, needed, has

    def __str__(self) -> str:
        return f"job {self.job!r} needs the role {self.needed}; the caller has {self.has}"


def made_id(bulk: BulkRow, item: str) -> str:
    """The execution that this bulk makes of an item."""
    return follow_up_id(bulk.id, "bulk", item)


def is_own(bulk: BulkRow, row: ExecutionRow) -> bool:
    """Whether this bulk itself has made it."""
    return row.retry_of is not None and row.id == made_id(bulk, row.retry_of)


def request_id(bulk: BulkRow) -> str:
    """The request id of the audit records of all its items."""
    return f"bulk:{bulk.id}"


def cancel_reason(bulk: BulkRow) -> str:
    """Names the bulk, so that a repeated page recognises what it has cancelled before."""
    return f"{bulk.note or f'cancelled by {bulk.created_by}'} (bulk {bulk.id})"


def replaced_reason(bulk: BulkRow, item: str) -> str:
    return f"edited: replaced by {made_id(bulk, item)}"


def may_steer(bulk: BulkRow, job: Job, needed: Role) -> None:
    """Refuse a job that asks for a higher role than whoever started the bulk has."""
    if bulk.role is not None and not Role(bulk.role).covers(needed):
        raise RoleTooLow(job.name, needed.value, bulk.role)


class JobsOfPage(msgspec.Struct, frozen=True):
    """The jobs of a page of executions by name, and the own jobs of their handlers."""

    jobs: Mapping[str, Job]
    own: Mapping[str, Job]


def may_steer_execution(bulk: BulkRow, row: ExecutionRow, known: JobsOfPage) -> None:
    """An execution is guarded like its job; one whose job is gone, like the own job of its handler."""
    job = known.jobs.get(row.job) or known.own.get(row.handler)
    if job is not None:
        may_steer(bulk, job, job_roles.role_for(job, job_roles.own_job(job, known.own)))


# ---------------------------------------------------------------- results


def refusal(id: str, error: MainspringError) -> BulkItemRow:
    made = error.execution.id if isinstance(error, AlreadyRunning) else None
    return BulkItemRow(id=id, status="refused", code=code_of(error), error=str(error), execution_id=made)


def made(row: ExecutionRow) -> BulkItemRow:
    """The result of an item of which this execution was made."""
    return BulkItemRow(id=row.retry_of or "", status="done", execution_id=row.id, now=row.state.value)


def with_parent(id: str) -> BulkItemRow:
    """The result of a tenant's execution whose parent is retried by the same bulk."""
    return BulkItemRow(id=id, status="skipped", code="with_parent", error="its parent is retried, and runs it again")


def already_retried(id: str, retry: str) -> BulkItemRow:
    """The result of an execution that was retried before, alone or with its parent: to retry it again would do the same
    work twice. What can be retried is the latest retry."""
    words = f"already retried as {retry}"
    return BulkItemRow(id=id, status="skipped", code="already_retried", error=words, execution_id=retry)


def left_out(bulk: BulkRow, row: ExecutionRow, retried: Mapping[str, str]) -> BulkItemRow | None:
    """The result of an execution that this bulk must not retry. `retried` has the latest retries of executions; one
    that this bulk has made itself does not count as an earlier one."""
    retry, parent = retried.get(row.id), parent_of(row)
    if retry is not None:
        return None if retry == made_id(bulk, row.id) else already_retried(row.id, retry)
    if parent is None:
        return None
    if (retry := retried.get(parent)) is not None and retry != made_id(bulk, parent):
        return already_retried(row.id, retry)
    return with_parent(row.id) if retry is not None or parent in bulk.ids else None


def outcome(action: str, item: BulkItemRow) -> str:
    """What became of an item, in one word.

    >>> outcome("retry", BulkItemRow(id="a", status="done")), outcome("retry", BulkItemRow(id="b", status="refused"))
    ('retried', 'refused')
    """
    return DONE_WORDS.get(action, "done") if item.status == "done" else item.status


def proposed_probe(action: str, total: int) -> int:
    """How many executions a form proposes to try first: some of them, if there are more.

    >>> proposed_probe("retry", 1_000), proposed_probe("retry", 5), proposed_probe("cancel", 1_000)
    (5, 0, 0)
    """
    return PROBE if action in MAKES_EXECUTIONS and total > PROBE else 0


def code_of(error: MainspringError) -> str:
    """The kind of an error: the same codes as in answers of the HTTP interface."""
    match error:
        case AlreadyRunning():
            return "already_running"
        case CommandRefused():
            return "command_refused"
        case NotFound():
            return "not_found"
        case InvalidValue():
            return "invalid_value"
        case RoleTooLow():
            return "role_too_low"
        case _:
            return "error"


# ---------------------------------------------------------------- progress


def page_size(bulk: BulkRow) -> int:
    """A probe takes no more items than it needs; a bulk with a pace takes as many as its pace permits in half a
    second."""
    size = PAGE if bulk.pace is None else min(PAGE, max(1, int(bulk.pace * PAGE_SECONDS)))
    return min(size, bulk.probe - len(bulk.probed)) if probes_more(bulk) else size


def probes_more(bulk: BulkRow) -> bool:
    return bulk.state == "probing" and len(bulk.probed) < bulk.probe and not bulk.last


def paused_for(bulk: BulkRow, now: Micros) -> float:
    """Seconds until its pace permits the next page. `page_size` bounds how long that can be: if it seems longer, the
    clock was set back, and the next page is due now."""
    if bulk.pace is None:
        return 0.0
    left = (bulk.next_at - now) / SECOND
    return left if 0 < left <= max(PAGE_SECONDS, 1 / bulk.pace) else 0.0


def is_driven_elsewhere(bulk: BulkRow, driver: str, now: Micros) -> bool:
    """Whether another process advanced it a moment ago. Two drivers do no harm, but they do the same work twice."""
    return bulk.driver not in ("", driver) and abs(now - bulk.moved) < TAKEOVER


def advanced(bulk: BulkRow, page: BulkPage, driver: str, now: Micros) -> BulkRow:
    """The record with the items of its present page counted."""
    counts = Counter(item.status for item in page.items)
    paced = 0 if bulk.pace is None else int(len(page.items) / bulk.pace * SECOND)
    after = msgspec.structs.replace(
        bulk,
        done=bulk.done + counts["done"],
        refused=bulk.refused + counts["refused"],
        skipped=bulk.skipped + counts["skipped"],
        errors=_counted_codes(bulk.errors, page.items, "refused"),
        skips=_counted_codes(bulk.skips, page.items, "skipped"),
        probed=(*bulk.probed, *_probed(page.items)) if bulk.state == "probing" else bulk.probed,
        page=bulk.page + 1,
        cursor=page.next,
        last=page.next is None,
        next_at=now + paced,
        driver=driver,
        moved=now,
    )
    if after.handled > after.total:
        after = msgspec.structs.replace(after, total=after.handled)
    if after.state == "aborting":
        return ended(after, "aborted", after.reason, now)
    return ended(after, "completed", None, now) if after.last and after.state == "running" else after


def _probed(items: Iterable[BulkItemRow]) -> list[str]:
    return [item.execution_id for item in items if item.status == "done" and item.execution_id is not None]


def _counted_codes(before: dict[str, int], items: Iterable[BulkItemRow], status: ItemStatus) -> dict[str, int]:
    found = Counter(item.code for item in items if item.status == status and item.code is not None)
    return dict((Counter(before) + found).most_common(MOST_CODES)) if found else before


def after_probe(bulk: BulkRow, runs: Sequence[tuple[str, ExecutionRow | None]], now: Micros) -> BulkRow:
    """The record after the probe; unchanged while its executions have not all ended. An execution that was deleted
    since stops the bulk too, because nobody knows how it ended."""
    if any(row is not None and not row.state.final for _, row in runs):
        return bulk
    if bad := [(id, row) for id, row in runs if row is None or row.state not in (State.COMPLETED, State.SKIPPED)]:
        stopped = ended(bulk, "stopped", _probe_words([row for _, row in bad], len(runs)), now)
        return msgspec.structs.replace(stopped, stopped_by=bad[0][0])
    if bulk.last:
        return ended(bulk, "completed", None, now)
    return msgspec.structs.replace(bulk, state="running", moved=now)


def _probe_words(bad: Sequence[ExecutionRow | None], tried: int) -> str:
    """Why the probe stopped the bulk: how many of its executions did not complete, and the error of the first.

    >>> row = ExecutionRow(id="a", job="pay", job_id="j", handler="pay", state=State.FAILED, error="ValueError: no")
    >>> _probe_words([row, row], 2), _probe_words([None], 5)
    ('both probe runs failed: ValueError: no', '1 of 5 probe runs was deleted before it was judged')
    """
    if len(bad) == tried:
        which = {1: "the probe run", 2: "both probe runs"}.get(tried, f"all {tried} probe runs")
    else:
        which = f"{len(bad)} of {tried} probe runs"
    states = {row.state if row is not None else None for row in bad}
    was = "was" if len(bad) == 1 else "were"
    match states.pop() if len(states) == 1 else State.PARTIAL:
        case State.FAILED:
            words = f"{which} failed"
        case State.CANCELLED:
            words = f"{which} {was} cancelled"
        case None:
            words = f"{which} {was} deleted before {'it was' if was == 'was' else 'they were'} judged"
        case _:
            words = f"{which} did not complete"
    error = next((row.error or row.reason for row in bad if row is not None and (row.error or row.reason)), None)
    return f"{words}: {_first_line(error)}" if error else words


def ended(bulk: BulkRow, state: BulkState, reason: str | None, now: Micros) -> BulkRow:
    """The record of a bulk that is over. One that completed knows its exact total."""
    total = bulk.handled if state == "completed" else bulk.total
    exact = bulk.total_is_exact or state == "completed"
    return msgspec.structs.replace(
        bulk, state=state, reason=reason, finished=now, moved=now, total=total, total_is_exact=exact
    )


def _first_line(text: str) -> str:
    return text.splitlines()[0][:200] if text else ""
