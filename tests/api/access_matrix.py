"""The access matrix: every route of an application x every way to ask, against the answer its declared role demands.

It takes any FastAPI application and its OpenAPI document. The application's guard is exchanged for guards of the
matrix's own; everything else stays as it is. A route that declares no role, or another one than the document says, is a
finding, and so is any answer that is not the expected one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from mainspring.config.security import SecuritySettings
from mainspring.core.access.api_tokens import Token, digest_of
from mainspring.server.access import Guard, Role, limited_to_sys, required_role
from tests.api.access_support import SECRET, STRANGER, ask_status, public_pem, rsa_key, settings, signed

FRIEND, PROXY = "192.0.2.10", "10.0.0.1"
AUDIENCE = "mainspring"
TOKEN_SECRET = "ab" * 32
FORM: dict[str, Any] = {"headers": [("cookie", f"mainspring_form={'0' * 32}")], "body": b"csrf=" + b"0" * 32}
"""A form that was sent by a page of the dashboard."""

Expected = Literal["let in", "401", "403", "401 or 403"]
"""Below /_sys both the address and the credentials may be wrong; which of them is told first is the route's affair."""


class Operation(msgspec.Struct, frozen=True):
    """One operation of the document. `role` is None for `anyone`, and for requests that a signature admits."""

    method: str
    path: str
    role: Role | None
    sys: bool
    signed: bool = False

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def address(self) -> str:
        """Its path with something in place of each parameter."""
        return re.sub(r"\{[^}]+\}", "nothing-of-this-name", self.path)


class Case(msgspec.Struct, frozen=True):
    """One way to ask, and what becomes of it for an operation."""

    name: str
    guard: Guard
    expected: Callable[[Operation], Expected]
    peer: str | None = FRIEND
    bearer: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


# --- what is declared ---------------------------------------------------------------------------------------------


def operations(api: FastAPI, document: dict[str, Any], unguarded: Iterable[str] = ()) -> list[Operation]:
    """Every operation, checked: declared by its route, told in the document, and none left out of it.

    `unguarded` are the paths of routes that hold nothing to guard, such as a page of help.
    """
    documented = {
        (method.upper(), path): operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method in {"get", "put", "post", "delete", "patch", "head", "options", "trace"}
    }
    found: list[Operation] = []
    routes = []
    for route in iter_route_contexts(api.routes):
        if getattr(route, "dependant", None) is None:
            assert route.path in set(unguarded), f"{route.path} is no route of the interface, and nothing guards it"
            continue
        routes.append(route)
        for method in sorted(route.methods or ()):
            path = str(route.path_format)  # as the document writes it: without the types of its parameters
            told = documented.pop((method, path), None)
            assert told is not None or not route.include_in_schema, f"{method} {path} is not in the document"
            found.append(_operation(route, method, path, told))
    for (method, path), told in documented.items():  # a path without parameters may lead to a route with some
        route = next((one for one in routes if method in one.methods and one.path_regex.fullmatch(path)), None)
        assert route is not None, f"no route for {method} {path}"
        found.append(_operation(route, method, path, told))
    assert found, "an application without routes"
    assert all(item.sys for item in found if "/_sys/" in item.path), "a route below /_sys without its allowlist"
    return found


def _operation(route: Any, method: str, path: str, told: dict[str, Any] | None) -> Operation:
    role = required_role(route)
    assert role is not None, f"{method} {path} declares no role"
    shown = None if told is None else told.get("x-required-role")
    assert told is None or shown == role, f"{method} {path} needs {role}, the document says {shown}"
    return Operation(method, path, role if isinstance(role, Role) else None, limited_to_sys(route), role == "signature")


# --- what is expected ---------------------------------------------------------------------------------------------


def with_role(role: Role) -> Callable[[Operation], Expected]:
    return lambda operation: "let in" if operation.role is None or role.covers(operation.role) else "403"


def strangers_get(answer: Expected) -> Callable[[Operation], Expected]:
    return lambda operation: "let in" if operation.role is None else answer


def from_a_disallowed_address(operation: Operation) -> Expected:
    """The address counts before anything else, for health checks and signed requests too."""
    return "403"


def nobody_gets_in(operation: Operation) -> Expected:
    """Without credentials, and from an address that /_sys is not for."""
    if operation.role is None:
        return "let in"
    return "401 or 403" if operation.sys else "401"


def only_sys_gets(answer: Expected) -> Callable[[Operation], Expected]:
    return lambda operation: answer if operation.sys else "let in"


def cases(folder: Path) -> list[Case]:
    """Every way to ask. `folder` is for the public key."""
    shared = _guard(jwt_secret=SECRET, jwt_audience=AUDIENCE, api_tokens=True)
    public = _guard(jwt_key_file=_key_file(folder), jwt_algorithms="RS256", jwt_audience=AUDIENCE)
    limited = _guard(jwt_secret=SECRET, jwt_audience=AUDIENCE, api_allow=f"{FRIEND}, 127.0.0.1")
    sys_only = _guard(jwt_secret=SECRET, jwt_audience=AUDIENCE, sys_allow="")
    none_needed, behind_proxy = _guard(sys_allow=""), _guard(sys_allow="", trusted_proxies="127.0.0.1")
    admin, forwarded = signed(aud=AUDIENCE), "X-Forwarded-For"
    listed: list[Case] = []

    def case(name: str, guard: Guard, expected: Callable[[Operation], Expected], *headers: str, **request: Any) -> None:
        pairs = tuple((forwarded, value) for value in headers)
        listed.append(Case(name, guard, expected, headers=pairs, **request))

    unproven = strangers_get("401")
    case("no credentials", shared, unproven)
    case("no credentials, from this machine", shared, nobody_gets_in, peer="127.0.0.1")
    for role in Role:
        case(f"JWT of {role}", shared, with_role(role), bearer=signed(aud=AUDIENCE, role=role))
        case(f"RS256 of {role}", public, with_role(role), bearer=signed(rsa_key(), "RS256", aud=AUDIENCE, role=role))
        case(f"API token of {role}", shared, with_role(role), bearer=_token_text(role))
    case("unknown role", shared, unproven, bearer=signed(aud=AUDIENCE, role="root"))
    case("no role", shared, unproven, bearer=signed(aud=AUDIENCE, role=None))
    case("expired JWT", shared, unproven, bearer=signed(aud=AUDIENCE, exp=int(time.time()) - 3600))
    case("JWT without an end", shared, unproven, bearer=signed(aud=AUDIENCE, exp=None))
    case("expired API token", shared, unproven, bearer=_token_text("expired"))
    case("revoked API token", shared, unproven, bearer=_token_text("revoked"))
    case("unknown API token", shared, unproven, bearer=_token_text("unknown"))
    case("API token, wrong secret", shared, unproven, bearer=_token_text("admin")[:-1] + "0")
    for guard, kind in ((shared, "HS256"), (public, "RS256")):
        case(f"alg=none for {kind}", guard, unproven, bearer=_forged("none", b""))
    case("public key as a shared secret", public, unproven, bearer=_forged("HS256", public_pem(rsa_key())))
    case("JWT of another secret", shared, unproven, bearer=signed("x" * 64, aud=AUDIENCE))
    case("JWT of another key", public, unproven, bearer=signed(rsa_key(which=1), "RS256", aud=AUDIENCE))
    case("bad audience", shared, unproven, bearer=signed(aud="shop"))
    case("no audience", shared, unproven, bearer=signed())
    case("not at all a credential", shared, unproven, bearer="rubbish")

    case("disallowed address", limited, from_a_disallowed_address, bearer=admin, peer=STRANGER)
    case("allowed address", limited, with_role(Role.ADMIN), bearer=admin)
    case("disallowed address for /_sys", shared, only_sys_gets("403"), bearer=admin, peer=STRANGER)
    case("this machine for /_sys", sys_only, with_role(Role.ADMIN), bearer=admin, peer="127.0.0.1")
    case("another machine for /_sys", sys_only, only_sys_gets("403"), bearer=admin)
    case("through a listed proxy", limited, with_role(Role.ADMIN), FRIEND, bearer=admin, peer=PROXY)
    case("disallowed through a listed proxy", limited, from_a_disallowed_address, STRANGER, bearer=admin, peer=PROXY)
    case("spoofed X-Forwarded-For", limited, from_a_disallowed_address, FRIEND, bearer=admin, peer=STRANGER)
    both = f"{FRIEND}, {STRANGER}"
    case("spoofed before a listed proxy", limited, from_a_disallowed_address, both, bearer=admin, peer=PROXY)
    case("spoofed for /_sys", shared, only_sys_gets("403"), FRIEND, bearer=admin, peer=STRANGER)

    case("this machine, nothing configured", none_needed, with_role(Role.ADMIN), peer="127.0.0.1")
    case("another machine, nothing configured", none_needed, strangers_get("403"))
    case("Unix socket, nothing configured", none_needed, strangers_get("403"), peer=None)
    case("claims to be this machine", none_needed, strangers_get("403"), "127.0.0.1", peer=STRANGER)
    case("proxied loopback", none_needed, strangers_get("403"), "127.0.0.1", peer="127.0.0.1")
    case("proxied loopback, listed", behind_proxy, strangers_get("403"), "127.0.0.1", peer="127.0.0.1")
    case("proxied loopback with authentication", shared, nobody_gets_in, "127.0.0.1", peer="127.0.0.1")
    case("proxied loopback for /_sys", sys_only, only_sys_gets("403"), "127.0.0.1", bearer=admin, peer="127.0.0.1")
    return listed


# --- asking -------------------------------------------------------------------------------------------------------


async def mismatches(api: FastAPI, asked: list[Operation], case: Case) -> list[str]:
    """What was answered otherwise than expected."""
    found = []
    with guarded_by(api, case.guard):
        for operation in asked:
            form = FORM if operation.method == "POST" and operation.path.startswith("/dashboard") else {}
            headers = (*case.headers, *form.get("headers", ()))
            status = await ask_status(
                api,
                operation.address,
                operation.method,
                peer=case.peer,
                bearer=case.bearer,
                headers=headers,
                body=form.get("body"),
            )
            expected = case.expected(operation)
            if _meaning(status) not in expected.split(" or "):
                found.append(f"{case.name}: {operation} answered {status}, expected {expected}")
    return found


def _meaning(status: int) -> str:
    if status in (401, 403):
        return str(status)
    return "let in" if status < 500 and status != 429 else f"error {status}"


@contextmanager
def guarded_by(api: FastAPI, guard: Guard) -> Iterator[None]:
    own, api.state.guard = getattr(api.state, "guard", None), guard
    try:
        yield
    finally:
        api.state.guard = own


# --- credentials --------------------------------------------------------------------------------------------------


class KnownTokens:
    """In place of the application: a token for each role, an expired and a revoked one."""

    async def find_token(self, id: str) -> Token | None:
        known = {_id(name): name for name in (*Role, "expired", "revoked")}
        name = known.get(id)
        if name is None:
            return None
        role = Role(name) if name in list(Role) else Role.ADMIN
        return Token(
            id=id,
            name="matrix",
            role=role,
            digest=digest_of(TOKEN_SECRET),
            created=0,
            created_by="ada",
            expires=1 if name == "expired" else None,
            revoked=1 if name == "revoked" else None,
        )

    async def note_token_use(self, token: Token) -> Token:
        return token


def _guard(**given: Any) -> Guard:
    usual = {"sys_allow": f"{FRIEND}", "trusted_proxies": PROXY, "failed_logins_per_minute": 100_000}
    chosen: SecuritySettings = settings(**usual | given)
    return Guard(chosen, KnownTokens())


def _id(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def _token_text(name: str) -> str:
    return f"mainspring_{_id(name)}_{TOKEN_SECRET}"


def _key_file(folder: Path) -> str:
    path = folder / "matrix.pem"
    path.write_bytes(public_pem(rsa_key()))
    return str(path)


def _forged(algorithm: str, secret: bytes) -> str:
    """An admin's claims under a signature that anybody can make."""
    claims = {"sub": "mallory", "role": "admin", "aud": AUDIENCE, "exp": int(time.time()) + 3600}
    text = f"{_b64(json.dumps({'alg': algorithm, 'typ': 'JWT'}).encode())}.{_b64(json.dumps(claims).encode())}"
    signature = hmac.digest(secret, text.encode(), "sha256") if secret else b""
    return f"{text}.{_b64(signature)}"


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
