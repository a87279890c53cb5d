"""Servers on this machine that stand for those of strangers: receivers with and without TLS, and an HTTP proxy."""

from __future__ import annotations

import asyncio
import base64
import datetime
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@asynccontextmanager
async def server(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    tasks: set[asyncio.Task[None]] = set()

    async def end_with(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(end_with(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    running = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    try:
        yield running.sockets[0].getsockname()[1]
    finally:
        running.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def answering(answer: bytes, then: str = "close", requests: list[bytes] | None = None, body: int = 2) -> Serve:
    """A server that reads a head and `body` bytes, answers, and then closes, hangs, or repeats the last byte or the
    whole for ever."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        request += await reader.readexactly(body)
        if requests is not None:
            requests.append(request)
        try:
            writer.write(answer)
            while then == "drip":
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.01)
            while then == "flood":
                writer.write(answer * 100)
                await writer.drain()
            if then == "hang":
                await reader.read()
        except ConnectionError:
            pass

    return serve


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Accepts, and says nothing."""
    await reader.read()


def certificates(folder: Path, names: list[str | None]) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's TLS with a certificate for receiver.example, which notes the names that clients ask for, and that of a
    client who trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    day = datetime.timedelta(days=1)
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("receiver.example")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    (folder / "certificate.pem").write_bytes(certificate)
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    serving.sni_callback = lambda _, asked, __: names.append(asked)
    return serving, ssl.create_default_context(cadata=certificate.decode())


class Proxy:
    """An HTTP proxy that knows CONNECT alone. Every address leads to this machine, as in a network of its own."""

    def __init__(self, user: str | None) -> None:
        self.targets: list[str] = []
        """Whom it was asked for."""
        self.port = 0
        self.injects = b""
        """What it sends after its answer, before the receiver says anything."""
        self._login = None if user is None else "Basic " + base64.b64encode(user.encode()).decode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            method, target, _ = first.split(" ")
            assert (method, headers["host"]) == ("CONNECT", target)
            self.targets.append(target)
            if headers.get("proxy-authorization") != self._login:
                writer.write(b"HTTP/1.1 407 Log in\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n")
                return
            try:
                other, to_other = await asyncio.open_connection("127.0.0.1", int(target.rpartition(":")[2]))
            except OSError:
                writer.write(b"HTTP/1.1 502 Bad gateway\r\nContent-Length: 0\r\n\r\n")
                return
            writer.write(b"HTTP/1.1 200 Connection established\r\nX-Proxy: here\r\n\r\n" + self.injects)
            await asyncio.gather(_copy(reader, to_other), _copy(other, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def proxy(user: str | None = None) -> AsyncIterator[Proxy]:
    made = Proxy(user)
    async with server(made.serve) as made.port:
        yield made
