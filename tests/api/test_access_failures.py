"""Failed logins are counted, by address, in bounded memory."""

from __future__ import annotations

import asyncio

import pytest

from mainspring.core.access.api_tokens import Token, digest_of
from mainspring.server.access import Guard, Refused, Role
from mainspring.server.access import failures as module
from mainspring.server.access.failures import FailedLogins
from tests.api.access_support import SECRET, STRANGER, Answer, ask, settings, signed, tiny_api
from tests.support import until

pytestmark = pytest.mark.req("SEC-2")


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


class Door:
    """A guard with its clock, and a hand to knock."""

    def __init__(self, **given: object) -> None:
        self.clock = Clock()
        chosen = settings(jwt_secret=SECRET, trusted_proxies="10.0.0.1", **given)
        self.api = tiny_api(Guard(chosen, monotonic=self.clock))

    async def knock(
        self, bearer: str | None = "wrong", peer: str = STRANGER, path: str = "/viewer", **more: object
    ) -> Answer:
        return await ask(self.api, path, peer=peer, bearer=bearer, **more)  # type: ignore[arg-type]


async def test_ten_a_minute_then_a_wait() -> None:
    door = Door()
    assert [(await door.knock()).status for _ in range(12)] == [401] * 10 + [429] * 2
    door.clock.time += 20
    refused = await door.knock()
    assert (refused.status, refused.code) == (429, "too_many_failed_logins")
    assert refused.headers["retry-after"] == "40"
    assert (await door.knock(bearer=signed())).status == 429, "or else guessing would go on"
    door.clock.time += 40
    assert (await door.knock()).status == 401
    door.clock.time += 61
    assert (await door.knock(bearer=signed())).status == 200


async def test_failures_are_logged_without_the_credential(caplog: pytest.LogCaptureFixture) -> None:
    door = Door()
    wrong = signed("another secret, of thirty-two bytes or more")
    await door.knock(bearer=wrong)
    assert f"failed login from {STRANGER}: the JWT's signature is wrong" in caplog.text
    assert not any(part in caplog.text for part in wrong.split("."))


async def test_the_limit_is_a_setting() -> None:
    door = Door(failed_logins_per_minute=2)
    assert [(await door.knock()).status for _ in range(3)] == [401, 401, 429]


async def test_each_address_has_its_own_count_and_loopback_has_one_too() -> None:
    door = Door()
    for _ in range(10):
        await door.knock(peer="127.0.0.1")
    assert (await door.knock(peer="127.0.0.1")).status == 429
    assert (await door.knock(peer=STRANGER)).status == 401
    assert (await door.knock(peer=STRANGER, bearer=signed())).status == 200


async def test_the_address_is_that_of_the_client_not_of_the_proxy() -> None:
    door = Door()
    for _ in range(11):
        await door.knock(peer="10.0.0.1", headers=[("X-Forwarded-For", STRANGER)])
    assert (await door.knock(peer="10.0.0.1", headers=[("X-Forwarded-For", STRANGER)])).status == 429
    assert (await door.knock(peer="10.0.0.1", headers=[("X-Forwarded-For", "203.0.113.10")])).status == 401
    assert (await door.knock(peer=STRANGER, headers=[("X-Forwarded-For", "1.1.1.1")])).status == 429, "no fresh count"


async def test_missing_credentials_and_low_roles_are_no_failures() -> None:
    door = Door()
    for _ in range(20):
        assert (await door.knock(bearer=None)).status == 401
        assert (await door.knock(bearer=signed(role="viewer"), path="/admin")).status == 403
    assert (await door.knock(bearer=signed())).status == 200


async def test_a_success_forgives_nothing() -> None:
    door = Door()
    for _ in range(9):
        await door.knock()
    assert (await door.knock(bearer=signed())).status == 200
    assert (await door.knock()).status == 401
    assert (await door.knock()).status == 429


async def test_health_checks_read_no_credentials_and_so_count_none() -> None:
    door = Door()
    assert [(await door.knock(path="/healthz")).status for _ in range(12)] == [200] * 12
    assert (await door.knock()).status == 401


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ADDRESSES", 3)
    failed = FailedLogins(1, Clock())
    for name in ("a", "b", "c", "a", "d"):
        failed.add(name)
    failed.check("b")  # the one that failed longest ago is forgotten
    for name in ("a", "c", "d"):
        with pytest.raises(Refused):
            failed.check(name)
    for _ in range(100):
        failed.add("a")
    assert sum(len(times) for times in failed._times.values()) == 3


class Gate:
    """A store that answers when told to, with a token that only one secret proves."""

    def __init__(self, token: Token) -> None:
        self.token, self.asked, self.open = token, 0, asyncio.Event()

    async def find_token(self, id: str) -> Token | None:
        self.asked += 1
        await self.open.wait()
        return self.token

    async def note_token_use(self, token: Token) -> Token:
        return token


async def test_guesses_made_at_once_learn_no_more_than_late_ones() -> None:
    """Whoever passed the first look while others failed is told to wait, right or wrong."""
    right = "f" * 64
    token = Token(id="0" * 16, name="ci", role=Role.ADMIN, digest=digest_of(right), created=0, created_by="ada")
    gate = Gate(token)
    api = tiny_api(Guard(settings(api_tokens=True), gate))
    guesses = [f"{n:064x}" for n in range(30)] + [right]
    tasks = [
        asyncio.create_task(ask(api, "/viewer", peer=STRANGER, bearer=f"mainspring_{'0' * 16}_{secret}"))
        for secret in guesses
    ]
    await until(lambda: gate.asked == len(guesses))
    gate.open.set()
    answers = await asyncio.gather(*tasks)
    assert answers[-1].status == 429
