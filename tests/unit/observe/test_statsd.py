"""The StatsD reporter: what it sends, and that it never stops anybody."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from mainspring import InvalidValue, JobContext, Mainspring
from mainspring.model.events import (
    AttemptEnded,
    Enqueued,
    Fenced,
    Missed,
    Rescued,
    RowEvent,
    Skipped,
    Started,
    Stopped,
    Ticked,
)
from mainspring.model.execution import ExecutionRow, State
from mainspring.observe.metrics.statsd import StatsD
from tests.support import DEADLINE, run_once

RUN = ExecutionRow(id="e1", job="shop.crawl: all", job_id="j1", handler="crawl", trigger="schedule")


@pytest.fixture
def daemon() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.settimeout(DEADLINE)
        yield listening


@pytest.fixture
def statsd(daemon: socket.socket) -> Iterator[StatsD]:
    reporter = StatsD(f"127.0.0.1:{daemon.getsockname()[1]}")
    yield reporter
    reporter.close()


def ended(state: State, reason: str = "") -> AttemptEnded:
    return AttemptEnded(execution=RUN, state=state, attempt=1, duration_ms=12.34567, reason=reason, retry_in=0.0)


@pytest.mark.req("OBS-8")
@pytest.mark.parametrize(
    ("event", "metrics"),
    [
        (Enqueued(RUN), ["enqueued:1|c"]),
        (Started(RUN, 0), ["started:1|c"]),
        (ended(State.COMPLETED), ["completed:1|c", "duration:12.346|ms"]),
        (ended(State.FAILED), ["failed:1|c", "duration:12.346|ms"]),
        (ended(State.PENDING, "failed"), ["retried:1|c", "duration:12.346|ms"]),
        (ended(State.PENDING, "snoozed"), ["duration:12.346|ms"]),
        (ended(State.WAITING), ["duration:12.346|ms"]),
        (AttemptEnded(RUN, State.CANCELLED, 1, 0.0, tried=False), ["cancelled:1|c"]),
        (Skipped(RUN, "overlap"), ["skipped:1|c"]),
        (Ticked(RUN, 3.25), ["late:3.250|ms"]),
        (Rescued(RUN, 31_000.0, State.PENDING), ["rescued:1|c", "retried:1|c"]),
        (Rescued(RUN, 31_000.0, State.FAILED), ["rescued:1|c", "failed:1|c"]),
        (Fenced(RUN, "ending"), ["fenced:1|c"]),
        (Missed("shop.crawl: all", 0, 1, 4, True, 0), ["missed:4|c"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_an_event_is_worth(statsd: StatsD, daemon: socket.socket, event: RowEvent, metrics: list[str]) -> None:
    statsd(event)
    assert daemon.recv(2_000).decode().splitlines() == [f"mainspring.shop_crawl__all.{metric}" for metric in metrics]
    assert statsd.hears(type(event))


@pytest.mark.req("OBS-8")
def test_with_tags_and_a_prefix_of_its_own(daemon: socket.socket) -> None:
    reporter = StatsD(f"127.0.0.1:{daemon.getsockname()[1]}", prefix="shop.jobs", tags=True)
    reporter(Stopped("w1", 0))  # nothing to send
    reporter(Started(RUN, 0))
    reporter.close()
    assert daemon.recv(2_000) == b"shop.jobs.started:1|c|#job:shop_crawl__all"


@pytest.mark.req("OBS-8")
async def test_plugged_into_an_application(statsd: StatsD, daemon: socket.socket) -> None:
    app = Mainspring("memory://", observers=[statsd])

    @app.job("crawl")
    async def crawl(ctx: JobContext) -> None: ...

    async with app:
        await run_once(app, "crawl")
    received = [daemon.recv(2_000).decode().partition(":")[0] for _ in range(3)]
    assert sorted(received) == ["mainspring.crawl.completed", "mainspring.crawl.enqueued", "mainspring.crawl.started"]


@pytest.mark.req("OBS-7", "OBS-8")
def test_nobody_listening_and_a_closed_socket_are_survived() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
        gone.bind(("127.0.0.1", 0))
        reporter = StatsD(f"127.0.0.1:{gone.getsockname()[1]}")
    for _ in range(100):
        reporter(Started(RUN, 0))
    reporter.close()
    reporter(Started(RUN, 0))
    assert reporter.dropped > 0


@pytest.mark.req("OBS-7", "OBS-8")
def test_a_name_that_nobody_knows_is_told_and_sends_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror("unknown")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    reporter = StatsD("statsd.invalid:8125")
    reporter(Started(RUN, 0))
    reporter.close()
    assert "statsd.invalid:8125" in caplog.text


@pytest.mark.parametrize("address", ["localhost", "localhost:0", "localhost:99999", ":8125", None, 8125])
def test_an_address_has_a_host_and_a_port(address: str) -> None:
    with pytest.raises(InvalidValue, match="host:port"):
        StatsD(address)
