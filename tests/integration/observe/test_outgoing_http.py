"""Outgoing requests against servers that do what servers must not: one deadline, bounded answers, no redirects, and
never to an address that was not checked."""

from __future__ import annotations

import asyncio
import ssl
import threading
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from mainspring import InvalidValue
from mainspring.core.ports import HttpAnswer
from mainspring.observe.outgoing import lookups
from mainspring.observe.outgoing.egress_proxy import MOST_ADDRESSES
from mainspring.observe.outgoing.http import EXCERPT, NotAllowed, OutgoingHttp
from tests.integration.observe.foreign_servers import OK, answering, certificates, server, silent
from tests.support import DEADLINE, until

pytestmark = pytest.mark.req("SEC-4", "WHK-1")

SHORT = 0.3


async def post(port: int, deadline: float = DEADLINE, **options: Any) -> HttpAnswer:
    client = OutgoingHttp(**{"private": True} | options)
    return await client.post(f"http://127.0.0.1:{port}/in?key=1", {"X-A": "b"}, b"{}", deadline)


async def test_a_request_and_its_answer() -> None:
    requests: list[bytes] = []
    head = b"HTTP/1.1 429 Slow down\r\nRetry-After: 7\r\nSet-Cookie: a=b\r\nContent-Type: text/plain\r\n"
    async with server(answering(head + b"Content-Length: 6\r\n\r\n\x1b[31m!", requests=requests)) as port:
        found = await post(port)
    assert (found.status, found.body) == (429, b"\x1b[31m!")
    assert found.headers == {"retry-after": "7", "content-type": "text/plain"}
    assert 0 < found.seconds < DEADLINE
    lines = requests[0].lower().split(b"\r\n")
    assert lines[0] == b"post /in?key=1 http/1.1"
    assert {b"x-a: b", b"content-length: 2", f"host: 127.0.0.1:{port}".encode(), b"connection: close"} <= {*lines}
    assert requests[0].endswith(b"\r\n\r\n{}")


async def test_redirects_are_answers_and_nothing_more() -> None:
    requests: list[bytes] = []
    async with server(answering(OK, requests=requests)) as inside:
        place = f"http://127.0.0.1:{inside}/".encode()
        for status in (301, 302, 303, 307, 308):
            head = f"HTTP/1.1 {status} Elsewhere\r\nLocation: ".encode() + place + b"\r\nContent-Length: 0\r\n\r\n"
            async with server(answering(head)) as port:
                assert (await post(port)).status == status
    assert requests == []


@pytest.mark.parametrize(
    ("answer", "then"),
    [
        (b"", "hang"),
        (b"HTTP/1.1 200 OK\r\nX: ", "drip"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", "hang"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "hang"),
    ],
)
async def test_one_deadline_for_a_server_that_hangs_or_drips(answer: bytes, then: str) -> None:
    async with server(answering(answer, then)) as port:
        with pytest.raises(TimeoutError, match=r"127\.0\.0\.1 did not answer within 0\.3 s"):
            await asyncio.wait_for(post(port, SHORT), DEADLINE)


@pytest.mark.parametrize(
    ("answer", "then", "problem"),
    [
        (b"", "close", "closed before the answer"),
        (b"HTTP/1.1 200", "close", "closed before the answer"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "hang", "no usable answer"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 4_000, "hang", "no usable answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "hang", "no usable answer"),
        (b"HTTP/1.1 102 Processing\r\n\r\n", "flood", "longer than"),
        (b"\x00" * 100_000, "hang", "no usable answer"),
    ],
)
async def test_what_is_no_answer_ends_at_once(answer: bytes, then: str, problem: str) -> None:
    async with server(answering(answer, then)) as port:
        with pytest.raises(OSError, match=problem):
            await post(port)


@pytest.mark.parametrize(
    ("answer", "then", "deadline"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nxx", "close", DEADLINE),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nxx", "hang", SHORT),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\nxx", "drip", SHORT),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 200_000, "hang", DEADLINE),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nxx\r\nnonsense", "close", DEADLINE),
        (b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nxx", "hang", DEADLINE),
    ],
)
async def test_once_the_head_is_there_the_status_counts(answer: bytes, then: str, deadline: float) -> None:
    """The body is kept as far as it came, and never more than a few KiB of it."""
    async with server(answering(answer, then)) as port:
        found = await asyncio.wait_for(post(port, deadline), DEADLINE)
    assert found.status == 200
    assert set(found.body) == set(b"x")
    assert 2 <= len(found.body) <= EXCERPT


async def test_every_answer_of_the_name_server_is_checked() -> None:
    async def answers(host: str) -> list[Any]:
        return [ip_address(text) for text in host.removesuffix(".example").replace("-", ".").split("+")]

    never = pytest.fail
    async with server(lambda *_: never("connected")) as port:
        for host, reason in (
            ("127-0-0-1", "loopback"),
            ("93-184-216-34+127-0-0-1", "loopback"),
            ("127-0-0-1+93-184-216-34", "loopback"),
            ("93-184-216-34+169-254-169-254", "metadata"),
            ("10-0-0-1", "private"),
        ):
            with pytest.raises(NotAllowed, match=reason):
                await OutgoingHttp(False, answers).post(f"http://{host}.example:{port}/", {}, b"", DEADLINE)
    with pytest.raises(NotAllowed, match="metadata"):
        await OutgoingHttp(True, answers).post("http://169-254-169-254.example/", {}, b"", DEADLINE)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0", "[::1]", "[::ffff:127.0.0.1]",
     "[::]", "[::7f00:1]", "0.0.0.0", "169.254.169.254", "[64:ff9b::7f00:1]", "LOCALHOST.", "127.0.0.1.", "10.0.0.1",
     "[2002:7f00:1::]", "[fe80::1]", "[fc00::1]", "100.64.0.1", "198.18.0.1", "192.0.2.1", "224.0.0.1"],
)  # fmt: skip
async def test_every_spelling_of_an_inner_address_is_refused(host: str) -> None:
    with pytest.raises(NotAllowed):
        await OutgoingHttp(False).get(f"http://{host}:1/", DEADLINE)


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "gopher://a/", "ftp://a/", "http://", "http:///x", "//a/", "http://u:p@a/", "http://a b/",
     "http://a/\r\nX: y", "http://a\\@b/", "http://127%2e0.0.1/", "http://[fe80::1%25eth0]/", "http://a:0/",
     "http://a:99999/", "http://[::1", "http://ⓔxample/", "http://a/é"],
)  # fmt: skip
async def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidValue, match="not shown"):
        await OutgoingHttp(True).get(url, DEADLINE)


async def test_a_name_is_resolved_once_and_the_next_address_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[bytes] = []
    asked: list[str] = []

    async def answers(host: str) -> list[Any]:
        asked.append(host)
        return [ip_address("127.0.0.9"), ip_address("127.0.0.1")]

    async with server(answering(OK, requests=requests)) as port:
        client = OutgoingHttp(True, answers)
        assert (await client.post(f"http://Receiver.example:{port}/", {}, b"{}", DEADLINE)).status == 200
    assert asked == ["receiver.example"]
    assert f"host: receiver.example:{port}".encode() in requests[0].lower()


async def test_a_name_server_that_hangs_costs_one_thread_for_each_name(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, asked = threading.Event(), list[str]()

    def hangs(host: str) -> list[Any]:
        asked.append(host)
        answer.wait(DEADLINE)
        raise OSError("no such name")

    monkeypatch.setattr(lookups, "_resolve", hangs)
    monkeypatch.setattr(lookups, "LOOKUPS", lookups.Lookups())
    monkeypatch.setattr(lookups, "MOST_AT_ONCE", 2)
    client = OutgoingHttp(True)
    try:
        slow = [client.get(f"http://{name}.example/", SHORT) for name in ("one", "one", "one", "two")]
        assert [type(error) for error in await asyncio.gather(*slow, return_exceptions=True)] == [TimeoutError] * 4
        assert sorted(asked) == ["one.example", "two.example"]
        with pytest.raises(OSError, match="2 name lookups are in progress"):
            await client.get("http://three.example/", DEADLINE)
        waiting = asyncio.create_task(client.get("http://two.example/", DEADLINE))
        async with server(answering(OK)) as port:  # an address needs no name server
            assert (await client.post(f"http://127.0.0.1:{port}/", {}, b"{}", DEADLINE)).status == 200
    finally:
        answer.set()
    with pytest.raises(OSError, match="no such name"):
        await waiting
    await until(lambda: not lookups.LOOKUPS._waiting)


async def test_names_of_a_domain_that_hangs_keep_no_other_name_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger can invent any number of names, but each domain has to be bought."""
    answer, asked = threading.Event(), list[str]()

    def hangs(host: str) -> list[Any]:
        asked.append(host)
        if host.endswith("hangs.example"):
            answer.wait(DEADLINE)
        return [ip_address("127.0.0.1")]

    monkeypatch.setattr(lookups, "_resolve", hangs)
    monkeypatch.setattr(lookups, "LOOKUPS", lookups.Lookups())
    client = OutgoingHttp(True)
    names = [f"name-{number}.hangs.example" for number in range(2 * lookups.MOST_AT_ONCE)]
    async with server(answering(OK, body=0)) as port:
        try:
            slow = [asyncio.create_task(client.get(f"http://{name}:{port}/", SHORT)) for name in names]
            await until(lambda: len(asked) == lookups.MOST_OF_ONE_DOMAIN)
            assert (await client.get(f"http://quick.example:{port}/", DEADLINE)).status == 200
            assert {type(error) for error in await asyncio.gather(*slow, return_exceptions=True)} == {TimeoutError}
            assert len(lookups.LOOKUPS._waiting) == lookups.MOST_OF_ONE_DOMAIN, "names that nobody waits for are gone"
            later = asyncio.create_task(client.get(f"http://later.hangs.example:{port}/", DEADLINE))
            await until(lambda: "later.hangs.example" in lookups.LOOKUPS._waiting)
        finally:
            answer.set()
        assert (await later).status == 200
    assert sorted(asked) == sorted([*names[: lookups.MOST_OF_ONE_DOMAIN], "quick.example", "later.hangs.example"])
    await until(lambda: not lookups.LOOKUPS._waiting)


async def test_no_name_leads_to_a_thousand_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    connected: list[str] = []

    async def refuse(host: str, *_: Any, **__: Any) -> None:
        connected.append(host)
        raise ConnectionRefusedError("refused")

    async def answers(host: str) -> list[Any]:
        return [ip_address(f"93.184.{number // 256}.{number % 256}") for number in range(1_000)]

    monkeypatch.setattr(asyncio, "open_connection", refuse)
    with pytest.raises(ConnectionRefusedError):
        await OutgoingHttp(False, answers).get("http://many.example/", DEADLINE)
    assert connected == [f"93.184.0.{number}" for number in range(MOST_ADDRESSES)]


async def test_tls_checks_the_name_of_the_url_at_the_address_that_was_checked(tmp_path: Path) -> None:
    names: list[str | None] = []
    serving, trusting = certificates(tmp_path, names)

    async def answers(host: str) -> list[Any]:
        return [ip_address("127.0.0.1")]

    async with server(answering(OK), serving) as port:
        client = OutgoingHttp(True, answers, trusting)
        url = f"https://receiver.example:{port}/"
        assert (await client.post(url, {}, b"{}", DEADLINE)).status == 200
        assert (await client.post(url.replace("example:", "example.:"), {}, b"{}", DEADLINE)).status == 200
        assert names == ["receiver.example"] * 2
        for other, tls in ((url.replace("receiver", "other"), trusting), (url, None)):
            with pytest.raises(ssl.SSLCertVerificationError):
                await OutgoingHttp(True, answers, tls).post(other, {}, b"{}", DEADLINE)

    async with server(silent) as port:  # accepts, and never speaks TLS
        with pytest.raises(TimeoutError):
            await OutgoingHttp(True, answers, trusting).get(f"https://receiver.example:{port}/", SHORT)
