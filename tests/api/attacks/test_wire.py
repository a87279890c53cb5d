"""Attacks on the parsing of HTTP, as bytes through a socket to a server that runs."""

from __future__ import annotations

import asyncio
import re

import pytest

from mainspring import Mainspring
from tests.api.attacks.tables.wire import WireAttack, attacks
from tests.support import DEADLINE

pytestmark = pytest.mark.req("SEC-1")

_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
LEAKS = (b"Traceback", b"uvicorn", b"h11", b"File ", b"sqlite")


class Target:
    def __init__(self, port: int, token: str) -> None:
        self.port, self.token = port, token.encode()

    async def answer(self, sent: bytes) -> bytes:
        """All that comes back until the server closes, or the one answer is complete."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            async with asyncio.timeout(DEADLINE):
                writer.write(sent.replace(b"TOKEN", self.token))
                return await self._read(reader)
        except (ConnectionResetError, BrokenPipeError):
            return b""
        finally:
            writer.transport.abort()

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        got = b""
        while not _complete(got) and (part := await reader.read(65_536)):
            got += part
        return got

    async def findings(self, attack: WireAttack) -> list[str]:
        got = await self.answer(attack.sent)
        statuses = [int(each) for each in _STATUS.findall(got)] or [0]
        found = [] if statuses[0] in attack.expected else [f"answered {statuses[0]}, expected {attack.expected}"]
        found += [f"{len(statuses)} answers"] if len(statuses) > 1 else []
        found += [f"the answer contains {text!r}" for text in LEAKS if text in got]
        return [f"{attack.kind}: {each}" for each in found]


def _complete(got: bytes) -> bool:
    head, end, body = got.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    return bool(end) and length is not None and len(body) >= int(length[1])


async def test_every_odd_request_gets_one_refusal_and_hides_no_other() -> None:
    app = Mainspring("memory://", roles="api", port=0, api_tokens=True)
    app.job("greet")(lambda: None)
    async with app:
        server = (await app._runtime.engine()).http
        assert server is not None
        target = Target(server.port, (await app.tokens.create("admin", "admin")).text.reveal())
        found = [finding for attack in attacks() for finding in await target.findings(attack)]
        assert found == [], "\n".join(found)
        good = b"GET /api/v1/me HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer TOKEN\r\nConnection: close\r\n\r\n"
        assert _STATUS.findall(await target.answer(good)) == [b"200"], "the server still answers"
        assert await app.executions() == [], "nothing was smuggled"
