"""The checker's own idea of one execution, and the rules of its life. Written anew, not shared with any store.

EXE-2  which state may follow which
EXE-3  which ending leads where
EXE-4  what counts as a failure, and what does not
EXE-12 when a crash loop is one
"""

from __future__ import annotations

from mainspring.model.execution import HELD, PAUSED, ExecutionRow, State, next_token
from mainspring.model.store.messages import Change, ClaimRequest
from mainspring.model.time.instants import SECOND, Micros, seconds_to_micros

COUNTED = frozenset({"failed", "timeout", "worker_lost"})
FREE = frozenset({"snoozed", "handed_back"})
EXCLUSIVE = frozenset({"skip", "queue", "cancel_running"})


class Row:
    """One execution. `ends` tells how each of its claims ended, but for those given back unbegun: together they are as
    many as its claims, once it has ended."""

    __slots__ = (
        "added_at",
        "alone",
        "asked",
        "claimed_at",
        "crashes",
        "deferred",
        "deleted",
        "due",
        "ends",
        "failures",
        "finished",
        "given",
        "given_back",
        "held",
        "id",
        "keep",
        "lease",
        "overlap",
        "owner",
        "running_overlap",
        "running_unique",
        "settled_at",
        "settled_by",
        "staged",
        "state",
        "stopped",
        "todo",
        "token",
        "unique",
    )

    def __init__(self, given: ExecutionRow, at: float) -> None:
        self.given, self.id, self.added_at = given, given.id, at
        self.state, self.due = given.state, given.due
        self.unique, self.overlap, self.staged = given.unique_key, given.overlap_key, given.staged
        self.running_unique, self.running_overlap = given.running_unique_key, given.running_overlap_key
        self.token, self.owner, self.lease = given.token, given.owner, given.lease
        self.failures = self.crashes = 0
        self.alone = self.asked = self.stopped = self.deferred = self.deleted = False
        self.held: Micros | None = None  # when a held execution is due, until its next claim
        self.todo = given.todo
        self.keep = True
        self.claimed_at = at
        self.finished: Micros | None = given.finished
        self.settled_at = at
        self.settled_by = ""
        self.ends: list[str] = []
        self.given_back = 0  # claims that were given back before they began, which are no tries

    @property
    def lane(self) -> tuple[str, str, bool, bool]:
        return self.given.queue, self.given.handler, self.alone, self.given.share is None

    @property
    def live(self) -> bool:
        return not self.state.final

    @property
    def exclusive(self) -> bool:
        """Whether no second execution of the job may run beside it. A tick caught up waits for its turn beside others,
        any number of them."""
        waits_for_turn = self.given.trigger == "catch_up" and self.staged
        return self.given.rules.overlap in EXCLUSIVE and self.given.trigger != "backfill" and not waits_for_turn

    def take_slot(self, key: str) -> None:
        """One of several overlap keys was free; a running key that is the same goes with it."""
        if self.running_overlap == self.overlap:
            self.running_overlap = key
        self.overlap = key

    def held_by(self, owner: str, token: int) -> bool:
        return (self.state, self.token, self.owner) == (State.RUNNING, token, owner)

    def fits(self, change: Change, now: Micros) -> bool:
        """Whether this change must be accepted: the row is as it was seen, and a rescue finds a lease run out."""
        if not self.live or (self.state, self.token, self.owner) != (change.expect, change.token, change.owner):
            return False
        return not change.rescue or (self.lease is not None and self.lease <= now)

    def settle(self, change: Change, now: Micros, at: float) -> None:
        self.settled_at = at
        self.state, self.owner, self.lease = change.to, None, None
        self.failures, self.crashes, self.alone = change.failures, change.crashes, change.alone
        self.todo, self.keep = change.todo, change.keep
        if change.attempt is not None:
            self.ends.append(change.attempt.end)
        elif change.expect is State.RUNNING:
            self.given_back += 1
        if change.to is State.PENDING:
            self.due = now + seconds_to_micros(change.delay)
        if change.expect is State.RUNNING:
            self.held = self.due if _is_hold(change) else None
        if change.to.final:
            self.finished = change.at

    def claim(self, claim: ClaimRequest, lease: Micros, at: float) -> None:
        self.state, self.owner, self.lease, self.claimed_at = State.RUNNING, claim.owner, lease, at
        self.token = next_token(self.token, claim.stamp)
        self.deferred = False
        if self.staged:
            self.unique, self.overlap = self.running_unique, self.running_overlap
            self.staged = False


def wrong_move(row: Row, change: Change) -> str | None:
    """What is wrong with a change that fits the row, if anything."""
    if row.state is State.RUNNING:
        return _wrong_ending(row, change)
    if row.held is not None and change.to is State.PENDING:
        return _wrong_release(row, change, row.held - HELD)
    if change.to is not State.CANCELLED:
        return f"{row.state} became {change.to}"
    if (change.failures, change.crashes) != (row.failures, row.crashes):
        return "a cancelled wait counted as a failure"
    return None


def _is_hold(change: Change) -> bool:
    """Whether a worker gave it back unbegun because its job is paused."""
    unbegun = change.expect is State.RUNNING and change.attempt is None and not change.rescue
    return unbegun and change.to is State.PENDING and change.reason == PAUSED


def _wrong_release(row: Row, change: Change, wanted: Micros) -> str | None:
    """Only a held execution may go from pending to pending, when its job was resumed: its due time moves back by as
    much as it was moved ahead, and nothing else changes. Two nodes may walk at once: the second release says the same
    as the first, and is refused once the execution has been claimed."""
    if change.attempt is not None or change.rescue or change.reason is not None:
        return "a release that tells of an attempt"
    if (change.failures, change.crashes, change.alone) != (row.failures, row.crashes, row.alone):
        return "a release changed what was counted"
    due = change.at + seconds_to_micros(change.delay)
    if abs(wanted - due) > SECOND // 1000:
        return f"released to be due at {due} instead of {wanted}"
    return None


def _wrong_ending(row: Row, change: Change) -> str | None:
    attempt = change.attempt
    if attempt is None and not change.rescue:  # given back before it began
        return _wrong_count(row, change, "handed_back") or _wrong_state(row, change, "handed_back")
    if attempt is None or attempt.number != len(row.ends) + 1:
        return f"attempt {attempt and attempt.number} after {len(row.ends)} recorded ones"
    if change.rescue != (attempt.end == "worker_lost"):
        return f"a rescue that ended as {attempt.end}" if change.rescue else "a lost worker that spoke"
    return _wrong_count(row, change, attempt.end) or _wrong_state(row, change, attempt.end)


def _wrong_count(row: Row, change: Change, end: str) -> str | None:
    counted = int(end in COUNTED)
    allowed = {counted} if change.to is not State.CANCELLED else {0, counted}
    if change.failures - row.failures not in allowed:
        return f"{end}: failures went from {row.failures} to {change.failures}"
    if change.crashes - row.crashes != int(end == "worker_lost"):
        return f"{end}: crashes went from {row.crashes} to {change.crashes}"
    if change.failures > row.given.rules.max_attempts:
        return f"{change.failures} failures with max_attempts {row.given.rules.max_attempts}"
    return None


def _wrong_state(row: Row, change: Change, end: str) -> str | None:
    """Where each ending may lead. Being asked to stop turns every ending but success into `cancelled`; so does a job
    that was cancelled before the claim."""
    rules = row.given.rules
    spent = change.failures >= rules.max_attempts
    if end == "completed" or change.to is State.COMPLETED:
        return None if (end, change.to) == ("completed", State.COMPLETED) else f"{end} became {change.to}"
    if change.to is State.CANCELLED:
        return None if row.asked or row.stopped else "cancelled without having been asked to stop"
    if end == "cancelled" or (end in FREE and change.to is not State.PENDING):
        return f"{end} became {change.to}"
    if change.to is State.PENDING and end in COUNTED:
        if spent:
            return f"tried again after {change.failures} failures with max_attempts {rules.max_attempts}"
        delay, jitter = rules.retry.delay(change.failures), rules.retry.jitter
        if abs(change.delay - delay) > delay * jitter + 1e-6:
            return f"retry in {change.delay} s after {change.failures} failures instead of {delay} s"
    if change.to is State.FAILED and change.reason == "crash_loop" and not (row.alone and change.crashes >= 3):
        return f"crash_loop after {change.crashes} crashes, {'' if row.alone else 'not '}alone"
    if change.to is State.FAILED and end == "worker_lost" and change.reason != "crash_loop" and not spent:
        return f"failed after {change.failures} failures with max_attempts {rules.max_attempts}"
    if end == "worker_lost" and change.to is State.PENDING and change.alone != (change.crashes >= 2):
        return f"{'alone' if change.alone else 'in company'} after {change.crashes} crashes"
    return None
