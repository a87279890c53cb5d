"""Random scripts for the equivalence test: how often each step is drawn, and with which values."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from ....model.execution import FINAL, State
from ....model.limits import Limit, encode_limits
from .steps import (
    Add,
    Advance,
    Claim,
    Complete,
    DeleteJob,
    Exchange,
    Lock,
    New,
    Settle,
    Step,
    Tick,
    TidyUp,
    WorkerMessage,
    WriteEntries,
    WriteJob,
)

KEYS = (None, None, None, "k1", "k2")
ENDINGS = (State.COMPLETED, State.COMPLETED, State.COMPLETED, *sorted(FINAL))
ARRIVING = (*[State.PENDING] * 8, State.RUNNING, State.WAITING, State.SKIPPED, State.FAILED)
SLOT, SLOTS, OTHER_SLOT = (Limit("s", concurrency=1), Limit("s", concurrency=2), Limit("o", concurrency=1))
TOKEN = Limit("t", rate=0.17, burst=1)  # no sum of the steps in time below makes a whole token
LIMITS: tuple[tuple[Limit, ...], ...] = (
    *[()] * 8,
    *((SLOT,), (SLOTS,), (SLOTS, OTHER_SLOT), (OTHER_SLOT, SLOTS)),
    *((TOKEN,), (TOKEN,), (OTHER_SLOT, TOKEN), (TOKEN, SLOTS)),
)
STALE = (*[None] * 6, "token", "owner")
LABELS = ((), (), (), ("k=1",), ("k=1", "l=ü"), ("!e",))
OTHER_LIMITS = (*[None] * 5, "[]", encode_limits((SLOT,)), encode_limits((OTHER_SLOT,)), encode_limits((TOKEN,)))


class Drawing:
    """Draws steps. The same seed gives the same script."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)

    def script(self, length: int) -> list[Step]:
        weights: dict[Callable[[], Step], int] = {
            self._add: 6,
            self._claim_only: 5,
            self._exchange: 6,
            self._usual_endings: 5,
            self._advance: 3,
            self._worker_message: 3,
            self._write_job: 2,
            self._usual_ticks: 2,
            self._tidy_up: 3,
            self._delete_job: 1,
            self._lock: 1,
            self._write_entries: 2,
        }
        steps: list[Step] = [self._new_job("a"), self._new_job("b")]
        while len(steps) < length:
            [draw] = self._chance.choices(list(weights), list(weights.values()))
            steps += [self._claim_all(), draw(), self._usual_endings()] if self._seldom() else [draw()]
        return steps

    def _add(self) -> Step:
        return Add(self._news(1, 4), self._rarely())

    def _claim_only(self) -> Step:
        return Exchange((), self._claim())

    def _exchange(self) -> Step:
        settles = tuple(self._settle() for _ in range(self._chance.randint(1, 4)))
        return Exchange(settles, self._chance.choice((None, self._claim())))

    def _claim_all(self) -> Step:
        """Two steps later the same handle acts again, which knows what it has claimed."""
        owner = self._chance.choice(("w1", "w2"))
        return Exchange((), Claim(owner, frozenset({"work", "rest"}), None, 50, self._chance.randrange(5), alone=False))

    def _usual_endings(self) -> Step:
        pick = self._chance.choice
        stale = pick((*[None] * 5, "token", "stamp", "owner", "twice"))
        few, many = self._position() // 4, self._chance.randint(1, 5)
        usual = Complete(few, many, stale, self._rarely(), self._rarely(), self._labels())
        others = (self._settle(),) if self._rarely() else ()
        return Exchange((usual, *others), pick((None, self._claim())))

    def _usual_ticks(self) -> Step:
        pick = self._chance.choice
        names = pick((("a", "b"), ("a", "b"), (self._name(),)))
        return Tick(tuple(map(self._tick, names)), pick((None, None, "version")), pick((None, 0.0, 5.0, 5.0)))

    def _tick(self, job: str) -> New:
        pick = self._chance.choice
        staged = pick((None, None, (None, pick(KEYS))))
        return New(
            job=job,
            queue=pick(("default", "mail")),
            handler="work",
            priority=pick((0, 5)),
            delay=0.0,
            unique=None,
            overlap=pick(KEYS),
            slots=1,
            running=staged,
            parent=None,
            alone=False,
            state=State.PENDING,
            again=None,
            trigger="schedule",
        )

    def _advance(self) -> Step:
        return Advance(self._chance.choice((0.000_001, 1.3, 5.0, 31.7)))

    def _worker_message(self) -> Step:
        return WorkerMessage(
            self._chance.choice(("heartbeat", "heartbeat", "report", "cancel")),
            self._position(),
            self._chance.choice(STALE),
            self._labels(),
        )

    def _new_job(self, name: str) -> Step:
        return WriteJob(name, None, 5.0, sweep=False, paused=False, news=())

    def _write_job(self) -> Step:
        pick = self._chance.choice
        stale = pick((None, None, None, "version", "unknown", "incarnation"))
        plan = pick((None, -1.0, 0.0, 5.0))
        return WriteJob(self._name(), stale, plan, self._rarely(), self._rarely(), self._news(0, 2))

    def _delete_job(self) -> Step:
        return DeleteJob(self._name(), stale=self._rarely(), purge=self._chance.choice((True, False)))

    def _tidy_up(self) -> Step:
        pick = self._chance.choice
        return TidyUp(
            kind=pick(("fold", "todo_done", "delete", "workers", "prune", "prune")),
            position=self._position(),
            job=self._name(),
            states=pick((FINAL, frozenset({State.COMPLETED}), frozenset({State.SKIPPED, State.FAILED}))),
            age=pick((None, 0.0, 5.0)),
            newest=pick((0, 1, 2)),
        )

    def _lock(self) -> Step:
        pick = self._chance.choice
        kind = pick(("take", "take", "renew", "release"))
        return Lock(kind, pick(("l1", "l2")), pick(("w1", "w2")), stale=self._rarely(), seconds=pick((0.0, 7.7)))

    def _write_entries(self) -> Step:
        pick = self._chance.choice
        offs = (None, 0, 0, 0, 1, -1)
        count = self._chance.randint(1, 4)
        return WriteEntries(tuple((pick(("a", "b", "é")), pick(offs), self._rarely()) for _ in range(count)))

    def _news(self, fewest: int, most: int) -> tuple[New, ...]:
        return tuple(self._new() for _ in range(self._chance.randint(fewest, most)))

    def _new(self) -> New:
        pick = self._chance.choice
        return New(
            job=self._name(),
            queue=pick(("default", "mail")),
            handler=pick(("work", "work", "rest")),
            priority=pick((0, 0, 5, -5)),
            delay=pick((0.0, 0.0, 0.0, -3.0, 5.0, 60.5)),
            unique=pick(KEYS),
            overlap=pick(KEYS),
            slots=pick((1, 1, 2)),
            running=pick((None, None, (pick(KEYS), pick(KEYS)))),
            parent=pick((None, None, "p")),
            alone=self._rarely() and self._rarely(),
            state=pick(ARRIVING),
            again=self._position() if self._rarely() else None,
            trigger=pick(("enqueue", "enqueue", "api", "schedule")),
            share=pick((None, None, "x", "y")),
            weight=pick((1, 1, 3)),
            limits=pick(LIMITS),
            labels=self._labels(),
        )

    def _settle(self) -> Settle:
        pick = self._chance.choice
        return Settle(
            position=self._position(),
            to=pick((State.PENDING, State.PENDING, State.WAITING, *ENDINGS)),
            stale=pick((*STALE, "state")),
            delay=pick((0.0, 2.5, 31.7)),
            keep=not self._rarely(),
            todo=self._rarely(),
            rescue=self._rarely(),
            alone=self._rarely() and self._rarely(),
            attempt=pick((True, False)),
            labels=self._labels(),
            limits=pick(OTHER_LIMITS),
            failure=self._rarely(),
        )

    def _claim(self) -> Claim:
        pick = self._chance.choice
        return Claim(
            owner=pick(("w1", "w2")),
            handlers=frozenset(pick((("work", "rest"), ("work", "rest"), ("rest",)))),
            queues=pick((None, None, frozenset({"mail"}), frozenset({"default", "mail"}))),
            limit=pick((50, 50, 3, 2, 1, 0)),
            turn=self._chance.randrange(5),
            alone=self._rarely(),
            without=frozenset({"mail"}) if self._rarely() else frozenset(),
        )

    def _labels(self) -> tuple[str, ...]:
        return self._chance.choice(LABELS)

    def _position(self) -> int:
        return min(self._chance.randrange(30), self._chance.randrange(30))

    def _name(self) -> str:
        return self._chance.choice(("a", "b"))

    def _rarely(self) -> bool:
        return self._chance.random() < 0.25

    def _seldom(self) -> bool:
        return self._chance.random() < 0.15
