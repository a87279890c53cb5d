"""Who is told what, and who is asked before an event of everyday life is made."""

from __future__ import annotations

import logging
import sys

import pytest

from mainspring.model.events import AttemptEnded, Enqueued, SkewNoticed, Started
from mainspring.model.execution import ExecutionRow
from mainspring.observe.dispatch import Dispatcher
from mainspring.observe.logs.lines import LogLines
from mainspring.observe.metrics.process_counters import ProcessCounts
from mainspring.observe.outgoing.http import OutgoingHttp
from mainspring.observe.pings.pings import Pings

pytestmark = pytest.mark.req("OBS-7")

PLAIN = ExecutionRow(id="1", job="crawl", job_id="1", handler="crawl")
PINGED = ExecutionRow(id="2", job="crawl", job_id="1", handler="crawl", policy='{"ping":[["start","http://there"]]}')


def lines(level: int) -> LogLines:
    return LogLines(logging.Logger("mainspring", level))


class Picky:
    """Hears of starts alone, and wants those of one job."""

    def __init__(self, job: str) -> None:
        self.job, self.seen, self.asked = job, [], 0  # type: ignore[var-annotated]

    def hears(self, kind: type) -> bool:
        self.asked += 1
        return kind is Started

    def wants(self, kind: type, execution: ExecutionRow) -> bool:
        return execution.job == self.job

    def __call__(self, event: object) -> None:
        self.seen.append(event)


class Broken:
    def hears(self, kind: type) -> bool:
        raise RuntimeError("no answer")

    def wants(self, kind: type, execution: ExecutionRow) -> bool:
        raise RuntimeError("no answer")

    def __call__(self, event: object) -> None: ...


def test_nobody_wants_what_nobody_hears() -> None:
    dispatcher = Dispatcher()
    assert not dispatcher.wants(Started, PLAIN)
    dispatcher.add(print)
    assert dispatcher.wants(Started, PLAIN)


@pytest.mark.parametrize("kind", [Started, AttemptEnded])
def test_everyday_lines_are_wanted_at_info(kind: type) -> None:
    assert not Dispatcher(lines(logging.WARNING)).wants(kind, PLAIN)
    assert Dispatcher(lines(logging.INFO)).wants(kind, PLAIN)
    assert not Dispatcher(lines(logging.INFO)).wants(Enqueued, PLAIN)
    assert Dispatcher(lines(logging.DEBUG)).wants(Enqueued, PLAIN)


def test_a_level_that_changes_is_noticed() -> None:
    logger = logging.getLogger("tests.dispatcher")
    logger.setLevel(logging.WARNING)
    dispatcher = Dispatcher(LogLines(logger))
    assert not dispatcher.wants(Started, PLAIN)
    logger.setLevel(logging.INFO)
    assert dispatcher.wants(Started, PLAIN)


def test_pings_want_executions_that_name_an_address() -> None:
    dispatcher = Dispatcher(lines(logging.WARNING), Pings(OutgoingHttp(private=False)))
    assert not dispatcher.wants(AttemptEnded, PLAIN)
    assert dispatcher.wants(AttemptEnded, PINGED)
    assert not dispatcher.wants(Enqueued, PINGED)


def test_metrics_want_starts_and_endings() -> None:
    dispatcher = Dispatcher(ProcessCounts(10))
    assert [bool(dispatcher.wants(kind, PLAIN)) for kind in (Enqueued, Started, AttemptEnded)] == [False, True, True]


def test_observers_get_what_they_hear_and_are_asked_once_for_each_kind() -> None:
    picky, all_of_it = Picky("crawl"), []  # type: ignore[var-annotated]
    dispatcher = Dispatcher(picky)
    assert dispatcher.wants(Started, PLAIN)
    assert not dispatcher.wants(Started, ExecutionRow(id="3", job="other", job_id="1", handler="crawl"))
    started, skew = Started(PLAIN, 0), SkewNoticed(3.0)
    for _ in range(2):
        dispatcher(started)
        dispatcher(skew)
    assert (picky.seen, picky.asked) == ([started] * 2, 2)
    dispatcher.add(all_of_it.append)
    dispatcher(skew)
    assert (picky.seen, all_of_it) == ([started] * 2, [skew])


def test_those_who_do_not_want_an_event_are_not_told_when_others_do() -> None:
    picky, all_of_it = Picky("crawl"), []  # type: ignore[var-annotated]
    dispatcher = Dispatcher(picky, all_of_it.append)
    for job in ("crawl", "other"):
        started = Started(ExecutionRow(id="3", job=job, job_id="1", handler="crawl"), 0)
        tell = dispatcher.wants(Started, started.execution)
        assert tell is not None
        tell(started)
    assert [event.execution.job for event in picky.seen] == ["crawl"]
    assert [event.execution.job for event in all_of_it] == ["crawl", "other"]


def test_an_observer_that_cannot_answer_is_told_everything(caplog: pytest.LogCaptureFixture) -> None:
    dispatcher = Dispatcher(Broken())
    assert dispatcher.wants(Started, PLAIN)
    assert dispatcher.wants(Started, PLAIN)
    assert [record.getMessage() for record in caplog.records] == ["observer Broken failed; jobs go on without it"]


@pytest.mark.req("OBS-7")
def test_an_observer_that_would_end_the_process_only_fails(caplog: pytest.LogCaptureFixture) -> None:
    told: list[object] = []
    Dispatcher(lambda event: sys.exit(3), told.append)("event")
    assert (told, len(caplog.records)) == (["event"], 1)


class Many:
    """Takes events all at once, or would not have them."""

    def __init__(self, wanted: bool = True) -> None:
        self.wanted, self.asked, self.heard = wanted, [], []  # type: ignore[var-annotated]

    def wants_any(self, kind: type, executions: list[ExecutionRow]) -> bool:
        self.asked.append((kind, list(executions)))
        return self.wanted

    def wants(self, kind: type, execution: ExecutionRow) -> bool:
        raise AssertionError("asked one by one")

    def hear_all(self, events: list[object]) -> None:
        self.heard.append(list(events))

    def __call__(self, event: object) -> None:
        raise AssertionError("told one by one")


OTHER = ExecutionRow(id="3", job="other", job_id="1", handler="crawl")
BOTH = [Started(PLAIN, 0), Started(OTHER, 0)]


def test_events_told_together_reach_everybody_as_they_want_them() -> None:
    many, picky, one_by_one = Many(), Picky("other"), []  # type: ignore[var-annotated]
    Dispatcher(many, picky, one_by_one.append).dispatch_all(Started, [PLAIN, OTHER], lambda: BOTH)
    assert (many.heard, picky.seen, one_by_one) == ([BOTH], [BOTH[1]], BOTH)
    assert many.asked == [(Started, [PLAIN, OTHER])]


def test_nothing_is_made_that_nobody_wants_together() -> None:
    def make() -> list[object]:
        raise AssertionError("made for nobody")

    for nobody in (
        Dispatcher(),
        Dispatcher(Many(wanted=False), Picky("third"), lines(logging.WARNING), Pings(OutgoingHttp(private=False))),
    ):
        nobody.dispatch_all(Started, [PLAIN, OTHER], make)


def test_pings_want_a_batch_in_which_any_names_an_address() -> None:
    told: list[object] = []
    pings = Pings(OutgoingHttp(private=False))
    assert not pings.wants_any(AttemptEnded, [PLAIN, PLAIN])
    assert pings.wants_any(AttemptEnded, [PLAIN, PINGED, PLAIN])
    Dispatcher(told.append).dispatch_all(AttemptEnded, [], lambda: told)
    assert not told


def test_who_fails_at_many_events_stops_nobody_and_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Many):
        def hear_all(self, events: list[object]) -> None:
            raise RuntimeError("too many")

    told: list[object] = []
    dispatcher = Dispatcher(Failing(), Broken(), told.append)
    for _ in range(2):
        dispatcher.dispatch_all(Started, [PLAIN, OTHER], lambda: BOTH)
    assert told == BOTH * 2
    complaints = [record.getMessage().split()[1].rpartition(".")[2] for record in caplog.records]
    assert complaints == ["Broken", "Failing"]
