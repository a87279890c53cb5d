"""Dead-man's switches: addresses that jobs ping, and what never happens because of them."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mainspring import InvalidValue, Mainspring, Skip
from mainspring.app import runtime
from mainspring.core.ports import HttpAnswer
from mainspring.core.rules.pings import check_ping
from mainspring.model.events import Started
from mainspring.model.execution import ExecutionRow, encode_policy
from mainspring.model.policies import RunPolicy
from mainspring.observe.pings.pings import AT_ONCE, AT_ONCE_PER_DOMAIN, AT_ONCE_PER_HOST, CAPACITY, Pings
from tests.support import Nodes, run_once, until, until_blocking


class Listener:
    """A server that notes which paths it was asked for."""

    def __init__(self, answer: bytes) -> None:
        self.answer, self.paths = answer, list[str]()
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.paths.append(head.split()[1].decode())
        writer.write(self.answer)
        writer.close()


@asynccontextmanager
async def listener(answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") -> AsyncIterator[Listener]:
    made = Listener(answer)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()


class Monitor:
    """Answers every ping, but those to hosts of this name only once `go_on` is set."""

    def __init__(self, hangs: str) -> None:
        self.hangs, self.go_on = hangs, threading.Event()
        self.asked, self.answered = list[str](), list[str]()

    async def get(self, url: str, deadline: float) -> HttpAnswer:
        self.asked.append(url)
        if self.hangs in url:
            await until(self.go_on.is_set)
        self.answered.append(url)
        return HttpAnswer(200)


def with_jobs(app: Mainspring, url: str) -> Mainspring:
    def fails() -> None:
        raise ValueError("as asked")

    app.job("good", ping=f"{url}/good?key=1")(lambda: None)
    app.job("all", ping={"start": f"{url}/start", "success": f"{url}/done", "failure": f"{url}/fail"})(lambda: None)

    def skips() -> None:
        raise Skip("nothing to do")

    app.job("idle", ping={"success": f"{url}/idle", "failure": f"{url}/bad"}, max_attempts=1)(skips)
    app.job("bad", ping={"success": f"{url}/good", "failure": f"{url}/bad"}, max_attempts=1)(fails)
    return app


@pytest.mark.req("OBS-6")
async def test_a_success_is_told_and_so_is_a_failure_if_asked_for(nodes: Nodes) -> None:
    async with listener() as heard, with_jobs(nodes.app(private_urls=True), heard.url) as app:
        for name in ("good", "all", "bad", "idle"):
            await run_once(app, name)
        await until(lambda: len(heard.paths) == 5, "all were asked for")
        assert sorted(heard.paths) == ["/bad", "/done", "/good?key=1", "/idle", "/start"]


@pytest.mark.req("OBS-6", "SEC-4")
async def test_private_addresses_are_refused_and_no_secret_is_logged(
    memory_nodes: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    async with listener() as heard, with_jobs(memory_nodes.app(), heard.url) as app:
        assert (await run_once(app, "good")).state == "completed"
        await until(lambda: "ping of job good failed" in caplog.text, "it is told")
        assert "private_urls" in caplog.text
        assert "key=1" not in caplog.text
        assert heard.paths == []


@pytest.mark.req("OBS-6", "SEC-4")
async def test_a_redirect_is_not_followed(memory_nodes: Nodes, caplog: pytest.LogCaptureFixture) -> None:
    async with listener() as elsewhere:
        answer = f"HTTP/1.1 302 Found\r\nLocation: {elsewhere.url}/in\r\nContent-Length: 0\r\n\r\n".encode()
        async with listener(answer) as heard, with_jobs(memory_nodes.app(private_urls=True), heard.url) as app:
            await run_once(app, "good")
            await until(lambda: "answered 302" in caplog.text, "it is told")
        assert elsewhere.paths == []


@pytest.mark.req("OBS-7")
async def test_who_does_not_answer_holds_up_nobody(memory_nodes: Nodes) -> None:
    hangs = Monitor("127.0.0.1")
    app = with_jobs(memory_nodes.app(), "http://127.0.0.1:1")
    async with app:
        app._runtime._pings.http = hangs
        for _ in range(20):
            assert (await run_once(app, "good")).state == "completed"
        await until(lambda: hangs.asked, "the first is asked for")
        assert not app._runtime._pings.flush(0)
        hangs.go_on.set()
        assert await asyncio.to_thread(app._runtime._pings.flush, 20)


@pytest.mark.req("OBS-6", "OBS-7")
@pytest.mark.parametrize("answers", [True, False])
async def test_pings_that_wait_when_the_application_closes_are_sent_or_given_up(
    memory_nodes: Nodes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    """Those that are not sent in time are dropped: a slow monitor does not keep the process."""
    monkeypatch.setattr(runtime, "PING_FLUSH", 20.0 if answers else 0.05)
    slow = Monitor("127.0.0.1")
    app = with_jobs(memory_nodes.app(), "http://127.0.0.1:1")
    pings = app._runtime._pings
    async with app:
        pings.http = slow
        for _ in range(10):
            await run_once(app, "good")
        await until(lambda: slow.asked, "the first is under way")
        if answers:
            monkeypatch.setattr(pings, "flush", lambda timeout: slow.go_on.set() or Pings.flush(pings, timeout))
    dropped = [record.getMessage() for record in caplog.records if "dropped" in record.getMessage()]
    if answers:
        assert (len(slow.answered), dropped) == (10, [])
    else:
        assert dropped == ["the application closes: 10 pings were not sent within 0.05 s and are dropped"]
        slow.go_on.set()
        await asyncio.to_thread(pings.flush, 20)
        assert len(slow.answered) <= AT_ONCE_PER_HOST, "only what was under way is still sent"


def started(number: int, url: str) -> Started:
    policy = encode_policy(RunPolicy(ping=(("start", url),)))
    return Started(ExecutionRow(id=str(number), job="good", job_id="1", handler="good", policy=policy), 0)


@pytest.mark.req("OBS-7")
def test_what_does_not_fit_is_told_and_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    hangs = Monitor("hc.example")
    pings = Pings(hangs)
    with caplog.at_level(logging.WARNING):
        for number in range(CAPACITY + 10):
            pings(started(number, "https://hc.example/secret"))
    assert caplog.text.count("too many pings") == 1
    assert "secret" not in caplog.text
    hangs.go_on.set()
    assert pings.flush(20)
    assert len(hangs.answered) == CAPACITY


@pytest.mark.req("OBS-7")
def test_a_host_that_does_not_answer_cannot_fill_the_queue_for_others() -> None:
    monitor = Monitor("hangs.example")
    pings = Pings(monitor)
    for number in range(CAPACITY):
        pings(started(number, "https://hangs.example/x"))
    for number in range(20):
        pings(started(number, "https://quick.example/x"))
    until_blocking(lambda: monitor.answered == ["https://quick.example/x"] * 20)
    monitor.go_on.set()
    assert pings.flush(20)
    assert len(monitor.answered) < CAPACITY + 20, "what gave way is not sent"


@pytest.mark.req("OBS-7", "SEC-4")
def test_hosts_that_do_not_answer_hold_up_no_other() -> None:
    hanging = [f"https://hangs-{number}.example/x" for number in range(AT_ONCE // AT_ONCE_PER_HOST - 1)]
    monitor = Monitor("hangs")
    pings = Pings(monitor)
    for number, url in enumerate([*hanging * 5, *["https://quick.example/x"] * 5]):
        pings(started(number, url))
    until_blocking(lambda: monitor.answered == ["https://quick.example/x"] * 5)
    assert sorted(set(monitor.asked)) == sorted([*hanging, "https://quick.example/x"])
    assert max(monitor.asked.count(url) for url in hanging) == AT_ONCE_PER_HOST
    monitor.go_on.set()
    assert pings.flush(20)
    assert sorted(monitor.answered) == sorted([*hanging * 5, *["https://quick.example/x"] * 5])


@pytest.mark.req("OBS-7", "SEC-4")
def test_a_host_has_its_share_once_however_it_is_written() -> None:
    monitor = Monitor("/slow")
    pings = Pings(monitor)
    for number, host in enumerate(("hc.example", "HC.example", "hc.EXAMPLE.", "hc.example:443", "hc.example:0443") * 4):
        pings(started(number, f"https://{host}/slow"))
    pings(started(20, "https://quick.example/x"))
    until_blocking(lambda: monitor.answered == ["https://quick.example/x"])
    assert len(monitor.asked) == AT_ONCE_PER_HOST + 1
    monitor.go_on.set()
    assert pings.flush(20)


@pytest.mark.req("OBS-7", "SEC-4")
@pytest.mark.parametrize("place", ["{}.hangs.example", "hangs.example:{}", "192.0.2.1:{}"])
def test_a_domain_that_does_not_answer_holds_up_no_other(place: str) -> None:
    """A service may have a name for each check, and a stranger can invent as many."""
    monitor = Monitor("/slow")
    pings = Pings(monitor)
    for number in range(CAPACITY):
        pings(started(number, f"https://{place.format(number + 1)}/slow"))
    for number in range(20):
        pings(started(number, "https://quick.example/x"))
    until_blocking(lambda: monitor.answered == ["https://quick.example/x"] * 20)
    assert len(monitor.asked) == AT_ONCE_PER_DOMAIN + 20
    monitor.go_on.set()
    assert pings.flush(20)
    assert CAPACITY <= len(monitor.answered) < CAPACITY + 20, "what gave way is not sent"


@pytest.mark.req("OBS-7")
def test_hosts_take_turns_when_all_are_busy() -> None:
    hosts = [f"https://hangs-{number}.example/x" for number in range(AT_ONCE)]
    monitor = Monitor("hangs")
    pings = Pings(monitor)
    for number, url in enumerate([*hosts, *hosts]):
        pings(started(number, url))
    until_blocking(lambda: len(monitor.asked) == AT_ONCE)
    monitor.go_on.set()
    assert pings.flush(20)
    assert sorted(monitor.answered) == sorted([*hosts, *hosts])


@pytest.mark.req("OBS-7")
def test_the_thread_ends_when_nothing_is_to_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.observe.pings.pings.IDLE", 0.01)
    monitor = Monitor("hangs")
    pings = Pings(monitor)
    for again in range(1, 3):
        pings(started(again, "https://quick.example/x"))
        until_blocking(lambda: pings._thread is None)
        assert len(monitor.answered) == again


@pytest.mark.req("OBS-6", "OBS-7")
def test_pings_are_sent_again_after_their_thread_had_no_file_for_its_event_loop(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full() -> asyncio.AbstractEventLoop:
        raise OSError(24, "Too many open files")

    monitor = Monitor("hangs")
    pings = Pings(monitor)
    with monkeypatch.context() as broken:
        broken.setattr(asyncio.events, "new_event_loop", full)
        pings(started(1, "https://quick.example/x"))
        until_blocking(lambda: "Too many open files" in caplog.text)
    until_blocking(lambda: pings._thread is not None and not pings._thread.is_alive())
    pings(started(2, "https://quick.example/x"))
    assert pings.flush(20)
    assert len(monitor.answered) == 2


@pytest.mark.req("OBS-6", "OBS-7")
def test_pings_are_sent_again_after_their_thread_could_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monitor = Monitor("hangs")
    pings = Pings(monitor)
    with monkeypatch.context() as broken:
        broken.setattr(threading.Thread, "start", full)
        with pytest.raises(RuntimeError, match="start new thread"):
            pings(started(1, "https://quick.example/x"))
    pings(started(2, "https://quick.example/x"))
    assert pings.flush(20)
    assert len(monitor.answered) == 2


@pytest.mark.req("OBS-6")
def test_a_forked_child_sends_its_own_pings() -> None:
    monitor = Monitor("hangs")
    pings = Pings(monitor)
    for number in range(AT_ONCE_PER_DOMAIN):
        pings(started(number, f"https://{number // AT_ONCE_PER_HOST}.hangs.example/x"))
    until_blocking(lambda: len(monitor.asked) == AT_ONCE_PER_DOMAIN)
    if not (child := os.fork()):
        monitor.hangs = "no host"
        pings(started(0, "https://0.hangs.example/x"))
        os._exit(0 if pings.flush(20) and len(monitor.answered) == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
    monitor.go_on.set()
    pings(started(0, "https://quick.example/x"))
    assert pings.flush(20)
    assert len(monitor.answered) == AT_ONCE_PER_DOMAIN + 1


@pytest.mark.req("OBS-6")
@pytest.mark.parametrize(
    "ping",
    ["ftp://a.b/c", "hc.example/abc", "http://", "http://u:p@a.b/", "http://a b/", {}, {"later": "http://a.b/"}, 7],
)
def test_what_cannot_be_pinged_is_refused_when_declared(ping: Any) -> None:
    with pytest.raises(InvalidValue, match="ping"):
        check_ping(ping)
