"""The last look: after the faults, when everything has come to rest, is the world as it has to be?"""

from __future__ import annotations

from collections import Counter

from mainspring.model.execution import LIVE, ExecutionRow, State
from mainspring.model.job import Job
from mainspring.model.store.messages import ExecutionQuery
from mainspring.model.time.instants import Micros
from mainspring.stores.memory import MemoryStore
from tests.simulator.judge import short
from tests.simulator.ledger import Ledger
from tests.simulator.rows import COUNTED, Row

EVERYTHING = 1_000_000


async def judge_the_end(store: MemoryStore, ledger: Ledger, until: Micros) -> None:
    await _check_leftovers(store, ledger)
    await _check_rows(store, ledger)
    await _check_numbers(store, ledger)
    await _check_audits(store, ledger)
    _check_acknowledged(ledger)
    _check_schedules(ledger, until)


async def _check_leftovers(store: MemoryStore, ledger: Ledger) -> None:
    left = {
        "live rows": len(await store.find(ExecutionQuery(states=LIVE, limit=EVERYTHING))),
        "follow-ups": len(await store.todo(EVERYTHING)),
        "jobs to sweep": len(await store.swept(EVERYTHING)),
        "cancel requests": len(await store.unserved_cancels(EVERYTHING)),
        "expired leases": len(await store.expired(EVERYTHING)),
    }
    for what, count in left.items():
        ledger.judge.check(count == 0, "nothing is left over", f"{count} {what}")


async def _check_rows(store: MemoryStore, ledger: Ledger) -> None:
    stored = {row.id: row for row in await store.find(ExecutionQuery(limit=EVERYTHING))}
    known = {row.id: row for row in ledger.rows.values() if not row.deleted}
    for id in stored.keys() - known.keys():
        ledger.judge.fail("the store is what was written", f"{short(id)} was never added")
    for id, row in known.items():
        found = stored.get(id)
        if found is None:
            ledger.judge.fail("nothing is lost", f"{short(id)} of job {row.given.job} is gone")
        else:
            wrong = _wrong_row(row, found)
            ledger.judge.check(wrong is None, "the store is what was written", f"{short(id)}: {wrong}")


def _wrong_row(row: Row, found: ExecutionRow) -> str | None:
    """Compare what the books say with the record, and the record with itself."""
    ends = [attempt.end for attempt in found.attempts]
    if (found.state, found.token, found.failures, found.crashes) != (row.state, row.token, row.failures, row.crashes):
        return f"{found.state}#{found.token} instead of {row.state}#{row.token}"
    if ends != row.ends or [attempt.number for attempt in found.attempts] != list(range(1, len(ends) + 1)):
        return f"attempts {ends} instead of {row.ends}"
    if found.claims != len(ends) + row.given_back:
        return f"{found.claims} claims, {len(ends)} endings, {row.given_back} given back unbegun"
    counted = sum(1 for end in ends if end in COUNTED)
    spared = int(found.state is State.CANCELLED and bool(ends) and ends[-1] in COUNTED)
    if not counted - spared <= found.failures <= counted:
        return f"{found.failures} failures after {ends}"
    if (found.finished, found.todo, found.owner, found.lease) != (row.finished, False, None, None):
        return f"finished {found.finished} instead of {row.finished}, todo {found.todo}, owner {found.owner}"
    return None


async def _check_numbers(store: MemoryStore, ledger: Ledger) -> None:
    """Execution numbers without a hole, and statistics that add up."""
    states: dict[str, Counter[State]] = {}
    for row in ledger.rows.values():
        states.setdefault(row.given.job_id, Counter())[row.state] += 1
    for job in await store.jobs():
        recorded = sum(states.get(job.id, Counter()).values())
        ledger.judge.check(
            job.last_number == recorded, "numbers are exact", f"job {job.name}: {job.last_number} for {recorded}"
        )
    for id, stats in (await store.stats()).items():
        counted = {state: getattr(stats, state.value) for state in State if state.final}
        expected = {state: states[id][state] for state in counted}
        ledger.judge.check(counted == expected, "statistics are exact", f"{counted} instead of {expected}")


async def _check_audits(store: MemoryStore, ledger: Ledger) -> None:
    stored = sorted(audit.id for audit in await store.audits(limit=EVERYTHING))
    written = sorted(audit.id for audit in ledger.audits)
    ledger.judge.check(stored == written, "every command is audited", f"{len(stored)} instead of {len(written)}")
    missing = ledger.journal.commands - {audit.actor for audit in ledger.audits}
    ledger.judge.check(not missing, "what is told is true", f"no trace of {sorted(missing)}")


def _check_acknowledged(ledger: Ledger) -> None:
    for id, what in ledger.journal.acknowledged.items():
        row = ledger.rows.get(id)
        ended = row is not None and not row.live
        ledger.judge.check(ended, "nothing is lost", f"{what} {short(id)}: {'lost' if row is None else row.state}")


def _check_schedules(ledger: Ledger, until: Micros) -> None:
    finished: dict[str, set[Micros]] = {}
    for row in ledger.rows.values():
        if row.finished is not None and row.given.tick is not None:
            finished.setdefault(row.given.job_id, set()).add(max(row.finished, row.given.tick))
    for job_id, schedule in ledger.schedules.items():
        wrong = schedule.wrong(until, frozenset(finished.get(job_id, ())))
        ledger.judge.check(wrong is None, "ticks are exact", wrong or "")
    for job in ledger.jobs.values():
        wrong = _stuck(job, until)
        ledger.judge.check(wrong is None, "no job is stuck", wrong or "")


def _stuck(job: Job, now: Micros) -> str | None:
    """A job with a schedule has a next run, unless its trigger has no tick left."""
    trigger = job.trigger
    if trigger is None or not job.spec.enabled or job.cancelled is not None or job.next_run is not None:
        return None
    if trigger.fixed_delay or trigger.only_tick_micros() is None:
        return f"job {job.name} ({trigger.expression()}) has no next run"
    return None
