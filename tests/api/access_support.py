"""A tiny application behind a guard, and requests to it from any address, without a network in between."""

import asyncio
import json
import time
from collections.abc import Iterable
from functools import cache
from typing import Annotated, Any

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse

from mainspring.config.load import load
from mainspring.config.security import SecuritySettings
from mainspring.server.access import Guard, Principal, Refused, Role, anyone, needs, sys_access
from tests.support import DEADLINE

SECRET = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
STRANGER = "203.0.113.9"


class Answer(msgspec.Struct):
    status: int
    headers: dict[str, str]
    body: Any

    @property
    def code(self) -> str:
        return str(self.body["error"]["code"])

    @property
    def message(self) -> str:
        return str(self.body["error"]["message"])


async def ask(api: Any, path: str, method: str = "GET", **request: Any) -> Answer:
    """One request through the ASGI interface, and its whole answer."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope, receive = _request(path, method, **request)
    await api(scope, receive, send)
    start = next(message for message in sent if message["type"] == "http.response.start")
    content = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
    found = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    is_json = found.get("content-type", "").partition(";")[0].endswith("json")
    return Answer(start["status"], found, json.loads(content) if is_json and content else content)


async def ask_status(api: Any, path: str, method: str = "GET", **request: Any) -> int:
    """Only the status, as soon as it is known: the answer may be a stream without an end."""
    begun: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start" and not begun.done():
            begun.set_result(message["status"])

    scope, receive = _request(path, method, **request)
    task = asyncio.ensure_future(api(scope, receive, send))
    try:
        async with asyncio.timeout(DEADLINE):
            await asyncio.wait({task, begun}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        task.cancel()
        ended = await asyncio.gather(task, return_exceptions=True)
    if not begun.done():
        raise AssertionError(f"{method} {path} gave no answer: {ended}")
    return begun.result()


def _request(
    path: str,
    method: str,
    *,
    peer: str | None = "127.0.0.1",
    headers: Iterable[tuple[str, str]] = (),
    bearer: str | None = None,
    host: str | None = "localhost:8000",
    body: Any = None,
) -> tuple[dict[str, Any], Any]:
    """`peer` is what the socket would say, None for a Unix socket. A body of bytes is a form."""
    given = [*headers]
    if host is not None:
        given.insert(0, ("host", host))
    if bearer is not None:
        given.append(("authorization", f"Bearer {bearer}"))
    content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    if content:
        kind = "application/x-www-form-urlencoded" if isinstance(body, bytes) else "application/json"
        given += [("content-type", kind), ("content-length", str(len(content)))]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path.partition("?")[0],
        "raw_path": path.partition("?")[0].encode(),
        "query_string": path.partition("?")[2].encode(),
        "root_path": "",
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in given],
        "client": None if peer is None else (peer, 50_000),
        "server": ("127.0.0.1", 8000),
    }
    requests = iter([{"type": "http.request", "body": content, "more_body": False}])

    async def receive() -> Any:
        return next(requests, {"type": "http.disconnect"})

    return scope, receive


def settings(**given: Any) -> SecuritySettings:
    """As the process has them that serves HTTP."""
    found = load(given, {}, "/dev/null")
    found.check_http()
    return found.security


def tiny_api(guard: Guard) -> FastAPI:
    """A route for each role, one below /_sys, one for strangers; refusals in the shape they bring."""
    api = FastAPI(openapi_url=None)
    api.state.guard = guard

    @api.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> JSONResponse:
        return JSONResponse(error.as_problem(), error.status, error.headers)

    for role in Role:
        _add(api, role)

    @api.get("/_sys/job", dependencies=[Depends(sys_access)])
    async def sys_jobs(who: Annotated[Principal, Depends(needs(Role.VIEWER))]) -> list[str]:
        return [who.actor]

    @api.get("/healthz", dependencies=[Depends(anyone)])
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    return api


def _add(api: FastAPI, role: Role) -> None:
    @api.get(f"/{role}")
    async def read(who: Annotated[Principal, Depends(needs(role))]) -> dict[str, str]:
        return {"actor": who.actor, "role": who.role, "kind": who.kind}

    @api.post(f"/{role}/{{name}}")
    async def write(name: str, who: Annotated[Principal, Depends(needs(role))]) -> dict[str, str]:
        return {"actor": who.actor}


def signed(key: Any = SECRET, algorithm: str = "HS256", headers: dict[str, Any] | None = None, **claims: Any) -> str:
    """A JWT of ada, an admin, good for an hour; a claim given as None is left out."""
    usual = {"sub": "ada", "role": "admin", "exp": int(time.time()) + 3600}
    payload = {name: value for name, value in {**usual, **claims}.items() if value is not None}
    return jwt.encode(payload, key, algorithm, headers)


@cache
def rsa_key(bits: int = 2048, which: int = 0) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65_537, bits)


@cache
def ec_key(curve: type[ec.EllipticCurve] = ec.SECP256R1) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(curve())


@cache
def ed_key() -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


def public_pem(key: Any) -> bytes:
    pem: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return pem


def jwk(key: Any, algorithm: str, **fields: Any) -> dict[str, Any]:
    """The public half as a JWK."""
    data = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
    return {**data, **fields}
