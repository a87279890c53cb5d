"""However an address is written, no request reaches this machine, a private network or a metadata service."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import ip_address

import pytest

from mainspring.model.values.address_classes import IPAddress
from mainspring.observe.outgoing.http import NotAllowed, OutgoingHttp
from tests.api.attacks.tables.outgoing import ADDRESSES
from tests.support import DEADLINE

pytestmark = pytest.mark.req("SEC-4")


async def test_no_way_to_write_an_address_leads_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    connected: list[str] = []

    async def connect(host: str, *_: object, **__: object) -> None:
        connected.append(host)
        raise OSError("no request may come this far")

    monkeypatch.setattr(asyncio, "open_connection", connect)
    outgoing = OutgoingHttp(private=False)
    for url in ADDRESSES:
        with pytest.raises((NotAllowed, socket.gaierror, ValueError)):
            await outgoing.get(url, DEADLINE)
    assert connected == []


@pytest.mark.parametrize(
    "answers",
    [
        ["93.184.216.34", "127.0.0.1"],
        ["127.0.0.1", "93.184.216.34"],
        ["2606:2800:220:1::1", "::ffff:169.254.169.254"],
        ["169.254.169.254"],
    ],
)
async def test_a_name_with_one_address_inside_is_not_asked(answers: list[str]) -> None:
    async def resolver(host: str) -> list[IPAddress]:
        return [ip_address(each) for each in answers]

    with pytest.raises(NotAllowed):
        await OutgoingHttp(private=False, resolver=resolver).get("http://rebinding.example/", DEADLINE)


async def test_a_name_is_resolved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second answer could be another one: the request goes to the address that was checked."""
    connected: list[str] = []
    answers = iter(["93.184.216.34", "127.0.0.1"])

    async def resolver(host: str) -> list[IPAddress]:
        return [ip_address(next(answers))]

    async def connect(host: str, *_: object, **__: object) -> None:
        connected.append(host)
        raise OSError("refused")

    monkeypatch.setattr(asyncio, "open_connection", connect)
    with pytest.raises(OSError, match="refused"):
        await OutgoingHttp(private=False, resolver=resolver).get("http://rebinding.example/", DEADLINE)
    assert connected == ["93.184.216.34"]
