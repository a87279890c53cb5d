"""The connection that listens is lost, noticed or not: work goes on through polling, and wake-ups come back."""

from __future__ import annotations

import time
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from mainspring.core.ports import Topic
from mainspring.stores.postgres import PostgresStore, wakeups
from tests.crash.handlers import Witnessed, build
from tests.crash.processes import PATIENCE, Processes, until
from tests.crash.tables import address_file
from tests.faults.counters import COUNTERS
from tests.faults.proxy import Line, Proxy, proxied

LISTEN = b"LISTEN "
PING = b"pg_notify"
NOTICED_WITHIN = 15.0
POLL = 3.0
TERMINATE = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE client_port = %s"


@pytest.mark.req("WRK-2")
async def test_a_listener_that_is_killed_listens_again(tmp_path: Path, address: str, processes: Processes) -> None:
    """Nobody polls here: what comes in meanwhile is found when the connection is back."""
    with proxied(address) as proxy:
        _listening_through(proxy, address, tmp_path)
        app = build(tmp_path)
        try:
            processes.node("worker", poll_interval=600)
            await until(lambda: proxy.that_said(LISTEN), PATIENCE)
            await _runs_within(app, PATIENCE)
            for _ in range(3):
                before = len(app.ledger.lines("began"))
                [line] = proxy.that_said(LISTEN)
                _terminate(address, line)
                await app.enqueue("work")
                began = time.monotonic()
                await until(lambda seen=before: len(app.ledger.lines("began")) > seen, PATIENCE)
                print(f"found {time.monotonic() - began:.2f} s after the listener was killed")
                await until(lambda old=line: _listens_again(proxy, old), PATIENCE)
            await until(lambda: _is_quick(app, 2.0), PATIENCE, "wake-ups come through")
        finally:
            await app.close()


@pytest.mark.req("WRK-2")
async def test_a_listener_that_is_half_open_is_noticed(tmp_path: Path, address: str, processes: Processes) -> None:
    with proxied(address) as proxy:
        _listening_through(proxy, address, tmp_path)
        app = build(tmp_path)
        try:
            processes.node("worker", poll_interval=POLL)
            [line] = await until(lambda: proxy.that_said(LISTEN), PATIENCE)
            await _runs_within(app, PATIENCE)
            line.blackhole()
            COUNTERS.cut += 1
            silent = time.monotonic()
            print(f"by polling: {await _runs_within(app, PATIENCE):.2f} s")
            await until(lambda: _listens_again(proxy, line), PATIENCE)
            noticed = time.monotonic() - silent
            print(f"noticed after {noticed:.1f} s")
            assert noticed < NOTICED_WITHIN
            await until(lambda: _is_quick(app, POLL / 2), PATIENCE, "wake-ups come through")
        finally:
            await app.close()


@pytest.mark.req("WRK-2")
async def test_a_listener_never_waits_for_ever(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence may begin at any word: before the server has spoken, in the middle of LISTEN, or much later."""
    monkeypatch.setattr(wakeups, "PING_AFTER", 0.3)
    monkeypatch.setattr(wakeups, "PING_PATIENCE", 0.3)
    with proxied(address) as proxy:
        store = PostgresStore(address, listen_url=proxy.address(address) + "?connect_timeout=2")
        heard: list[Topic] = []
        await store.open()
        try:
            store.listen(heard.append)
            for words in (b"user", LISTEN, PING):
                await _heard_again(heard)
                _silence_at(proxy, words)
                await until(lambda: proxy.on_words is _nothing, PATIENCE)
            await _heard_again(heard)
        finally:
            await store.close()


async def _heard_again(heard: list[Topic]) -> None:
    heard.clear()
    await until(lambda: Topic.ANY in heard, PATIENCE, "listens, and has told so")


def _silence_at(proxy: Proxy, words: bytes) -> None:
    """The next connection that says this hears nothing any more."""

    def hear(line: Line, said: bytes) -> None:
        if words in said:
            line.blackhole()
            COUNTERS.cut += 1
            proxy.on_words = _nothing

    proxy.on_words = hear
    if words != PING:
        for line in proxy.that_said(LISTEN):
            proxy.cut(line)


def _nothing(line: Line, said: bytes) -> None:
    return None


def _listening_through(proxy: Proxy, address: str, folder: Path) -> None:
    listen = quote(proxy.address(address), safe="")
    address_file(folder).write_text(f"{address}?listen_url={listen}")


def _listens_again(proxy: Proxy, old: Line) -> bool:
    return any(line is not old for line in proxy.that_said(LISTEN))


def _terminate(address: str, line: Line) -> None:
    port = line.server.get_extra_info("sockname")[1]
    with psycopg.connect(address, autocommit=True) as connection:
        assert connection.execute(TERMINATE, (port,)).fetchall() == [(True,)]
    COUNTERS.terminated += 1


async def _is_quick(app: Witnessed, limit: float) -> bool:
    """A single one may have waited for the machine."""
    return await _runs_within(app, PATIENCE) < limit


async def _runs_within(app: Witnessed, deadline: float) -> float:
    """Seconds from the acknowledged enqueue until the handler begins, in a worker that is idle before and after."""
    execution = await app.enqueue("work")
    assert execution is not None
    began = time.monotonic()
    await until(lambda: app.ledger.lines("began", id=execution.id), deadline)
    took = time.monotonic() - began
    await until(lambda: app.ledger.lines("accepted", id=execution.id), deadline)
    return took
