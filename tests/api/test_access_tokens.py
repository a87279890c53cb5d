"""API tokens, from the command line to the request."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.core.access.api_tokens import Token, Tokens, digest_of, parts_of
from mainspring.model.errors import CommandRefused, ConfigurationError, InvalidValue, NotFound, StoreError
from mainspring.model.store.entries import Entry, EntryWrite
from mainspring.model.time.instants import SECOND
from mainspring.server.access import Guard
from mainspring.server.access.tokens import FRESH_FOR, MOST_KEPT, NOTE_EVERY, TokenVerifier
from tests.acceptance.warm_commands import warm_commands
from tests.api.access_support import STRANGER, Answer, ask, settings, tiny_api
from tests.support import Nodes

pytestmark = pytest.mark.req("SEC-2")


@pytest.fixture(params=["memory", "sqlite"])
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Nodes:
    return Nodes(request.param, tmp_path)


class Clocks:
    """The guard's clocks, which the test moves; and a count of what reached the store."""

    def __init__(self, app: Mainspring, start: int) -> None:
        self._app, self.seconds, self._start = app, 0.0, start
        self.reads, self.notes = 0, 0
        self.broken = False

    def monotonic(self) -> float:
        return 500.0 + self.seconds

    def now(self) -> int:
        return self._start + round(self.seconds * SECOND)

    async def find_token(self, id: str) -> Token | None:
        self.reads += 1
        return await self._app._runtime.find_token(id)

    async def note_token_use(self, token: Token) -> Token:
        self.notes += 1
        if self.broken:
            raise OSError("the disk is full")
        return await self._app._runtime.note_token_use(token)


class Door:
    def __init__(self, app: Mainspring, start: int) -> None:
        self.clocks = Clocks(app, start)
        given = settings(api_tokens=True, failed_logins_per_minute=100)
        self.api = tiny_api(Guard(given, self.clocks, monotonic=self.clocks.monotonic, now=self.clocks.now))

    async def show(self, text: str, path: str = "/viewer") -> Answer:
        return await ask(self.api, path, peer=STRANGER, bearer=text)


@asynccontextmanager
async def door_of(nodes: Nodes) -> AsyncIterator[tuple[Mainspring, Door]]:
    async with nodes.client() as app:
        await app.open()
        yield app, Door(app, app._runtime.clock.now())


# --- use ----------------------------------------------------------------------------------------------------------


async def test_a_token_opens_what_its_role_opens(nodes: Nodes) -> None:
    async with door_of(nodes) as (app, door):
        made = await app.tokens.create("ci", "operator", by="ada")
        text = made.text.reveal()
        answer = await door.show(text)
        assert answer.body == {"actor": f"token:ci/{made.token.id}", "role": "operator", "kind": "token"}
        assert (await door.show(text, "/operator")).status == 200
        refused = await door.show(text, "/admin")
        assert (refused.status, refused.code) == (403, "role_too_low")
        assert "needs the role admin" in refused.message


async def test_wrong_ones_are_refused_without_saying_how_wrong(nodes: Nodes) -> None:
    async with door_of(nodes) as (app, door):
        text = (await app.tokens.create("ci", "admin")).text.reveal()
        id, secret = parts_of(text) or ("", "")
        flipped = secret[:-1] + ("0" if secret[-1] != "0" else "1")
        messages = set()
        for wrong in (
            f"mainspring_{id}_{flipped}",
            f"mainspring_{id}_{'0' * 64}",
            f"mainspring_{'0' * 16}_{secret}",
            f"mainspring_{id}_{secret}0",
            f"mainspring_{id}_{secret.upper()}x",
            f"mainspring_{id}_",
            f"mainspring_{id}",
            "mainspring_",
            f"mainspring_{id}_{digest_of(secret)}",
        ):
            answer = await door.show(wrong)
            assert (answer.status, answer.code) == (401, "invalid_credentials")
            assert secret not in answer.message
            messages.add(answer.message)
        assert messages == {"the API token is not valid"}


async def test_a_revoked_token_opens_nothing_within_seconds(nodes: Nodes) -> None:
    async with door_of(nodes) as (app, door):
        made = await app.tokens.create("ci", "admin")
        assert (await door.show(made.text.reveal())).status == 200
        await app.tokens.revoke(made.token.id, by="ada")
        door.clocks.seconds += FRESH_FOR
        refused = await door.show(made.text.reveal())
        assert (refused.status, refused.message) == (401, "the API token is revoked")


async def test_an_expired_token_opens_nothing_though_it_is_known(nodes: Nodes) -> None:
    async with door_of(nodes) as (app, door):
        made = await app.tokens.create("ci", "admin", expires="1h")
        assert (await door.show(made.text.reveal())).status == 200
        door.clocks.seconds = 3601
        assert (await door.show(made.text.reveal())).message == "the API token is expired"
        door.clocks.seconds = 3599
        assert (await door.show(made.text.reveal())).status == 200


async def test_what_the_store_said_is_relied_on_for_a_few_seconds(nodes: Nodes) -> None:
    async with door_of(nodes) as (app, door):
        text = (await app.tokens.create("ci", "admin")).text.reveal()
        for _ in range(20):
            assert (await door.show(text)).status == 200
        assert door.clocks.reads == 1
        for _ in range(20):
            await door.show(f"mainspring_{'0' * 16}_{'0' * 64}")
        assert door.clocks.reads == 2, "also when it said that there is none"
        door.clocks.seconds += FRESH_FOR
        await door.show(text)
        assert door.clocks.reads == 3


async def test_the_last_use_is_noted_at_most_once_a_minute(nodes: Nodes) -> None:
    async with door_of(nodes) as (app, door):
        made = await app.tokens.create("ci", "admin")
        for step in range(40):
            door.clocks.seconds = step * 2.0
            assert (await door.show(made.text.reveal())).status == 200
        assert door.clocks.notes == 1 + int(78 // NOTE_EVERY)
        (known,) = await app.tokens.all()
        assert known.last_used_at is not None
        assert known.last_used_at >= known.created_at


async def test_a_use_that_cannot_be_noted_is_still_a_use(nodes: Nodes, caplog: pytest.LogCaptureFixture) -> None:
    async with door_of(nodes) as (app, door):
        made = await app.tokens.create("ci", "admin")
        door.clocks.broken = True
        assert [(await door.show(made.text.reveal())).status for _ in range(3)] == [200] * 3
        assert door.clocks.notes == 1
        assert made.token.id in caplog.text
        assert made.text.reveal() not in caplog.text


async def test_noting_a_use_never_brings_a_revoked_token_back(nodes: Nodes) -> None:
    async with nodes.client() as app:
        made = await app.tokens.create("ci", "admin")
        seen = await app._runtime.find_token(made.token.id)
        assert seen is not None
        await app.tokens.revoke("ci")
        assert (await app._runtime.note_token_use(seen)).last_used is None
        (known,) = await app.tokens.all()
        assert (known.status, known.revoked_at is not None, known.last_used_at) == ("revoked", True, None)


@pytest.mark.req("OPS-5")
async def test_a_database_that_is_away_does_not_make_a_process_look_dead() -> None:
    class Away:
        async def find_token(self, id: str) -> Token | None:
            raise StoreError("the database is away")

        async def note_token_use(self, token: Token) -> Token:
            raise AssertionError

    api = tiny_api(Guard(settings(api_tokens=True), Away()))
    answer = await ask(api, "/healthz", peer=STRANGER, bearer=f"mainspring_{'0' * 16}_{'0' * 64}")
    assert (answer.status, answer.body) == (200, {"status": "ok"})


async def test_made_up_ids_fill_no_memory() -> None:
    class Empty:
        async def find_token(self, id: str) -> Token | None:
            return None

        async def note_token_use(self, token: Token) -> Token:
            raise AssertionError

    verifier = TokenVerifier(Empty(), lambda: 0.0, lambda: 0)
    for number in range(MOST_KEPT + 50):
        await verifier._cached(f"{number:016x}")
    assert len(verifier._kept) == MOST_KEPT


def test_tokens_need_somebody_who_knows_them() -> None:
    with pytest.raises(ConfigurationError, match=r"Guard\(app.settings.security, app\)"):
        Guard(settings(api_tokens=True))


async def test_without_the_setting_they_are_not_taken(nodes: Nodes) -> None:
    async with nodes.client() as app:
        text = (await app.tokens.create("ci", "admin")).text.reveal()
        refused = await ask(tiny_api(Guard(settings(), app._runtime)), "/viewer", bearer=text)
        assert (refused.status, refused.message) == (401, "API tokens are not accepted here (api_tokens)")


# --- records ------------------------------------------------------------------------------------------------------


async def test_the_secret_is_nowhere_but_in_the_answer(nodes: Nodes) -> None:
    async with nodes.client() as app:
        made = await app.tokens.create("ci", "operator", expires="90d", by="ada")
        text = made.text.reveal()
        assert re.fullmatch(r"mainspring_[0-9a-f]{16}_[0-9a-f]{64}", text)
        secret = text.rpartition("_")[2]
        everything = repr(made) + repr(await app.tokens.all()) + repr(await app.audits())
        if nodes.kind == "sqlite":
            await app.close()
            everything += b"".join(path.read_bytes() for path in nodes.folder.iterdir()).decode("latin-1")
            assert digest_of(secret) in everything
        assert secret not in everything


async def test_secrets_are_256_bits_and_never_the_same(nodes: Nodes) -> None:
    async with nodes.client() as app:
        secrets = {(await app.tokens.create("ci", "viewer")).text.reveal().rpartition("_")[2] for _ in range(50)}
        assert len(secrets) == 50
        assert {len(bytes.fromhex(secret)) for secret in secrets} == {32}


@pytest.mark.req("SEC-3")
async def test_making_and_revoking_leave_their_records(nodes: Nodes) -> None:
    async with nodes.client() as app:
        made = await app.tokens.create("ci", "operator", expires="1d", by="ada")
        await app.tokens.revoke("ci", by="grace")
        revoke, create = await app.audits(f"token:{made.token.id}")
        assert (create.actor, create.action, create.before) == ("ada", "create", None)
        assert (revoke.actor, revoke.action) == ("grace", "revoke")
        assert create.after["role"] == "operator"
        assert "revoked" in revoke.after
        digest = digest_of(made.text.reveal().rpartition("_")[2])
        assert digest not in repr((create, revoke, made, await app.tokens.all()))


async def test_revoking_twice_or_by_a_name_of_several(nodes: Nodes) -> None:
    async with nodes.client() as app:
        first, second = [(await app.tokens.create("ci", "viewer")).token for _ in range(2)]
        with pytest.raises(InvalidValue, match=f"{first.id}|{second.id}"):
            await app.tokens.revoke("ci")
        await app.tokens.revoke(first.id)
        assert (await app.tokens.revoke("ci")).id == second.id, "the only one left"
        with pytest.raises(CommandRefused, match="it is revoked"):
            await app.tokens.revoke(first.id)
        with pytest.raises(NotFound, match="no API token"):
            await app.tokens.revoke("unheard-of")


@pytest.mark.parametrize(
    ("name", "role", "expires"),
    [("a b", "viewer", None), ("ci", "root", None), ("ci", "viewer", "0s"), ("ci", "viewer", "2000w")],
)
async def test_what_cannot_be_made(name: str, role: str, expires: Any) -> None:
    app = Mainspring("memory://")
    try:
        with pytest.raises(InvalidValue):
            await app.tokens.create(name, role, expires=expires)
        assert await app.tokens.all() == []
    finally:
        await app.close()


async def test_an_entry_of_another_release_opens_nothing(nodes: Nodes) -> None:
    """A role that this release does not know, say."""
    async with nodes.client() as app:
        made = await app.tokens.create("ci", "admin")
        store = (await app._runtime.ready()).store
        (entry,) = await store.entries("token", "", [made.token.id])
        strange = Entry(kind="token", key=entry.key, body=entry.body.replace('"admin"', '"emperor"'))
        assert await store.write_entries([EntryWrite(entry=strange, seen_version=None)]) == [True]
        assert await app._runtime.find_token(made.token.id) is None
        assert await app.tokens.all() == []


async def test_many_tokens_are_listed_oldest_first(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.core.access.api_tokens.PAGE", 3)
    async with nodes.client() as app:
        made = [(await app.tokens.create(f"t{number}", "viewer")).token for number in range(10)]
        assert {token.id for token in await app.tokens.all()} == {token.id for token in made}
        created = [token.created_at for token in await app.tokens.all()]
        assert created == sorted(created)


def test_entropy_is_that_of_the_machine() -> None:
    assert inspect.signature(Tokens).parameters["entropy"].default is os.urandom


# --- the command line ---------------------------------------------------------------------------------------------


def mainspring(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm_commands().run((*arguments, "--database-url", "sqlite:///jobs.db"), folder, dict(os.environ), 60)


async def test_tokens_on_the_command_line(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path / 'jobs.db'}")
    await app.open()
    try:
        made = mainspring(tmp_path, "token", "create", "ci", "--role", "operator", "--expires", "90d")
        assert made.returncode == 0, made.stderr
        text = made.stdout.strip()
        assert parts_of(text) is not None, "nothing but the token, so that a script can keep it"
        assert text not in made.stderr
        assert "not shown again" in made.stderr
        assert "MAINSPRING_API_TOKENS=true" in made.stderr
        answer = await ask(
            tiny_api(Guard(settings(api_tokens=True), app._runtime)), "/operator", peer=STRANGER, bearer=text
        )
        assert answer.status == 200

        listed = mainspring(tmp_path, "token", "list", "-o", "json")
        (shape,) = json.loads(listed.stdout)
        assert (shape["name"], shape["role"], shape["status"]) == ("ci", "operator", "active")
        assert "ci" in mainspring(tmp_path, "token", "list").stdout

        revoked = mainspring(tmp_path, "token", "revoke", shape["id"])
        assert revoked.stdout == f"token {shape['id']} (ci) revoked\n"
        again = mainspring(tmp_path, "token", "revoke", "ci")
        assert (again.returncode, "is revoked" in again.stderr) == (1, True)
        assert mainspring(tmp_path, "token", "create", "x", "--role", "root").returncode == 2
        assert mainspring(tmp_path, "token", "revoke", "nobody").returncode == 2
        actions = [record.action for record in await app.audits() if record.target.startswith("token:")]
        assert actions == ["revoke", "create"]
    finally:
        await app.close()
