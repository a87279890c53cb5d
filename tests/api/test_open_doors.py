"""What is found out later: a stream whose token is revoked or expires, failed logins that other processes saw."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from fastapi.requests import HTTPConnection

from mainspring import Mainspring
from mainspring.core.access import login_failures
from mainspring.core.access.login_failures import LoginFailures
from mainspring.model.errors import StoreError
from mainspring.server import stream
from mainspring.server.access import Guard, Role, failures, tokens
from mainspring.server.stream import Streams
from mainspring.stores.memory import MemoryStore
from mainspring.testing import FakeClock
from tests.api.access_support import SECRET, STRANGER, ask, settings, signed, tiny_api
from tests.api.test_roles import Someone
from tests.support import DEADLINE, FAST, Nodes, until

pytestmark = pytest.mark.req("SEC-2")
WRONG = f"mainspring_{'0' * 16}_{'f' * 64}"


@pytest.mark.req("API-8")
async def test_a_stream_ends_soon_after_its_token(memory_nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "SILENCE", FAST)
    monkeypatch.setattr(stream, "ADMITTED_FOR", 0.0)
    monkeypatch.setattr(tokens, "FRESH_FOR", 0.0)
    app = memory_nodes.app(api_tokens=True)
    app.job("waits")(lambda: None)
    run = await app.enqueue("waits")
    assert run is not None
    streams: Streams = app.asgi().state.streams
    made = [await app.tokens.create(name, "viewer") for name in ("kept", "revoked")]
    people = [Someone(app, "", each.text.reveal()) for each in made]
    kept, revoked = (
        asyncio.create_task(someone.ask("GET", f"/api/v1/executions/{run.id}/stream")) for someone in people
    )
    await until(lambda: streams.open == 2)
    await app.tokens.revoke("revoked")
    answer = await asyncio.wait_for(revoked, DEADLINE)
    assert answer.text.endswith(": the credentials are not valid any more\n\n")
    assert (streams.open, kept.done()) == (1, False)
    streams.close()
    assert "not valid" not in (await kept).text
    await app.close()


def _connection(bearer: str) -> HTTPConnection:
    headers = [(b"authorization", f"Bearer {bearer}".encode())]
    return HTTPConnection({"type": "http", "client": (STRANGER, 1), "headers": headers})


async def test_who_was_let_in_is_looked_at_again_without_counting_it_as_a_login() -> None:
    guard = Guard(settings(jwt_secret=SECRET, jwt_leeway=0, failed_logins_per_minute=1))
    expired = _connection(signed(exp=int(time.time()) - 1))
    assert not await guard.still_admits(expired, Role.VIEWER)
    assert not await guard.still_admits(_connection(signed(role="viewer")), Role.ADMIN)
    assert await guard.still_admits(_connection(signed()), Role.ADMIN)
    assert (await guard.admit(_connection(signed()), Role.ADMIN)).name == "ada", "nothing was counted"


async def test_a_store_that_is_away_ends_no_stream() -> None:
    guard = Guard(settings(api_tokens=True), Away())
    assert await guard.still_admits(_connection(WRONG), Role.VIEWER)


class Away:
    """An application whose store is down."""

    async def find_token(self, id: str) -> None:
        raise StoreError("down")

    async def note_token_use(self, token: object) -> object:
        raise StoreError("down")

    async def note_failed_login(self, address: str, limit: int) -> float:
        raise StoreError("down")


# --- failed logins ------------------------------------------------------------------------------------------------


def _server(place: Path) -> Mainspring:
    """One of several servers, on one store."""
    return Mainspring(f"sqlite:///{place}/doors.db", jwt_secret=SECRET, failed_logins_per_minute=4)


async def test_several_servers_count_failed_logins_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server learns with its own next failure: with n servers there are n - 1 guesses more, and not n times as
    many. The store has all the time it needs: the first failure opens it."""
    monkeypatch.setattr(failures, "PATIENCE", DEADLINE)
    servers = [_server(tmp_path) for _ in range(3)]
    doors = [tiny_api(Guard(app.settings.security, app._runtime)) for app in servers]
    statuses = [(await ask(doors[number % 3], "/viewer", peer=STRANGER, bearer="wrong")).status for number in range(12)]
    assert statuses.count(401) == 4 + 2
    for door in doors:
        assert (await ask(door, "/viewer", peer=STRANGER, bearer=signed())).status == 429
        assert (await ask(door, "/viewer", peer="203.0.113.10", bearer=signed())).status == 200
    for app in servers:
        await app.close()


async def test_a_store_that_is_away_neither_opens_nor_shuts_the_door(caplog: pytest.LogCaptureFixture) -> None:
    door = tiny_api(Guard(settings(jwt_secret=SECRET, failed_logins_per_minute=3), Away()))
    assert [(await ask(door, "/viewer", peer=STRANGER, bearer="wrong")).status for _ in range(4)] == [401] * 3 + [429]
    assert (await ask(door, "/viewer", peer="203.0.113.10", bearer=signed())).status == 200
    assert "counted in this process alone: StoreError" in caplog.text


async def test_nor_does_one_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "PATIENCE", FAST)
    monkeypatch.setattr(failures, "MOST_AT_ONCE", 2)
    asked: list[asyncio.Task[float]] = []

    class Silent(Away):
        async def note_failed_login(self, address: str, limit: int) -> float:
            asked.append(asyncio.current_task())  # type: ignore[arg-type]
            return await asyncio.get_running_loop().create_future()

    door = tiny_api(Guard(settings(jwt_secret=SECRET, failed_logins_per_minute=3), Silent()))
    assert [(await ask(door, "/viewer", peer=STRANGER, bearer="wrong")).status for _ in range(4)] == [401] * 3 + [429]
    assert len(asked) == 2, "no more than so many wait for the store"
    for task in asked:
        task.cancel()
    await asyncio.gather(*asked, return_exceptions=True)


async def test_what_is_counted_together_is_bounded_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_failures, "ENTRIES", 1)
    monkeypatch.setattr(login_failures, "MOST_PER_ENTRY", 3)
    clock = FakeClock()
    store = MemoryStore(clock)
    counted = LoginFailures(store)
    assert [await counted.add("a", 2), await counted.add("a", 2)] == [0.0, 60.0]
    clock.advance(20)
    assert await counted.add("a", 2) == 40.0
    for number in range(10):
        await counted.add(f"other-{number}", 2)
        clock.advance(0.001)
    (entry,) = await store.list_entries("logins", "")
    assert entry.body.count("[") == 3
    assert "other" not in entry.body, "addresses are kept as hashes"
    clock.advance(61)
    assert await counted.add("a", 2) == 0.0
    (entry,) = await store.list_entries("logins", "")
    assert entry.body.count("[") == 1
    clock.jump(-30)
    assert await counted.add("a", 2) == 60.0, "a failure that was counted by a clock ahead of this one counts too"
