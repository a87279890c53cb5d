"""Attacks on logins: guessing, shutting out others, fixed sessions, and places that a login should not lead to."""

from __future__ import annotations

import msgspec
import pytest

from mainspring import Mainspring
from mainspring.server.access import Guard
from tests.api.access_support import SECRET, Answer, ask, settings, signed, tiny_api
from tests.api.attacks.attack import Attack, attack, with_form
from tests.api.attacks.tables.browsers import COOKIE, LEAVING, TOKEN
from tests.api.attacks.world import World, world

pytestmark = pytest.mark.req("SEC-2")

PROXY = "198.51.100.1"


class Door:
    """A guard that several clients reach through one proxy which is not listed."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.api = tiny_api(Guard(settings(jwt_secret=SECRET), monotonic=lambda: self.time))

    async def knock(self, bearer: str, peer: str = PROXY) -> Answer:
        return await ask(self.api, "/viewer", peer=peer, bearer=bearer)

    async def shut(self) -> None:
        for _ in range(10):
            await self.knock("a guess")


async def test_a_stranger_behind_the_same_proxy_does_not_shut_out_those_at_work() -> None:
    door, ada, eve = Door(), signed(sub="ada"), signed(sub="eve")
    assert (await door.knock(ada)).status == 200
    await door.shut()
    assert (await door.knock("a guess")).status == 429
    assert (await door.knock(ada)).status == 200
    assert (await door.knock(eve)).status == 429, "a credential that was not used before could be a lucky guess"
    assert (await door.knock(ada[:-1])).status == 429
    door.time += 3601
    await door.shut()
    assert (await door.knock(ada)).status == 429


async def test_a_known_credential_is_known_at_its_address_only() -> None:
    door, ada = Door(), signed(sub="ada")
    assert (await door.knock(ada, peer="198.51.100.2")).status == 200
    await door.shut()
    assert (await door.knock(ada)).status == 429


async def test_a_credential_that_was_revoked_is_known_no_more() -> None:
    app = Mainspring("memory://", api_tokens=True)
    try:
        made = await app.tokens.create("ci", "viewer", by="test")
        time = 1000.0
        api = tiny_api(Guard(settings(api_tokens=True), app._runtime, monotonic=lambda: time))

        async def knock(bearer: str) -> int:
            return (await ask(api, "/viewer", peer=PROXY, bearer=bearer)).status

        token = made.text.reveal()
        assert await knock(token) == 200
        await app.tokens.revoke("ci", by="test")
        time += 4
        assert [await knock(token) for _ in range(12)] == [401] * 10 + [429] * 2
    finally:
        await app.close()


def _login(next: str = "", **fields: str) -> Attack:
    given = with_form({"csrf": TOKEN, "next": next, **fields}, COOKIE)
    return attack("login", "POST /dashboard/login", 303, **given)


async def test_no_login_leads_to_another_site() -> None:
    async with world() as target:
        for url in LEAVING.values():
            reply = await target.send(_login(url, credential=target.tokens["viewer"]))
            assert (reply.status, reply.all("location")) == (303, ["/dashboard"]), url


async def test_a_login_sets_a_cookie_that_nothing_else_can_read_or_send() -> None:
    async with world() as target:
        for proto, secure in (("http", False), ("https", True)):
            login = _login(credential=target.tokens["viewer"])
            through = _changed(login, *_forwarded(proto), peer="10.0.0.1")
            [cookie] = (await target.send(through)).all("set-cookie")
            flags = {part.strip().lower() for part in cookie.split(";")[1:]}
            assert {"httponly", "samesite=lax", "path=/"} <= flags
            assert ("secure" in flags) == secure, "a proxy that is listed says which it was"
        stranger = _changed(login, *_forwarded("https"))
        [cookie] = (await target.send(stranger)).all("set-cookie")
        assert "secure" not in cookie.lower()


async def test_a_session_cannot_be_fixed_in_advance() -> None:
    """The cookie is the credential itself: one that an attacker has set is replaced, and worth what it proves."""
    async with world() as target:
        login = _login(credential=target.tokens["viewer"])
        fixed = _changed(login, ("cookie", "mainspring_session=fixed"))
        [cookie] = (await target.send(fixed)).all("set-cookie")
        assert cookie.startswith(f"mainspring_session={target.tokens['viewer']};")
        assert await _status(target, "fixed") in (303, 401)
        assert await _status(target, target.tokens["viewer"]) == 200


async def _status(target: World, session: str) -> int:
    headers = (("cookie", f"mainspring_session={session}"),)
    return (await target.send(attack("session", "GET /dashboard/jobs", 200, headers=headers))).status


def _changed(login: Attack, *headers: tuple[str, str], **more: str) -> Attack:
    return msgspec.structs.replace(login, headers=(*login.headers, *headers), **more)


def _forwarded(proto: str) -> tuple[tuple[str, str], ...]:
    return ("x-forwarded-proto", proto), ("x-forwarded-for", "192.0.2.7")
