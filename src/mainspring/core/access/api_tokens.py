"""API tokens: created, listed, revoked, looked up. Each is an entry that holds no secret.

A token is `mainspring_<id>_<secret>`: the id finds the entry, the secret proves possession. Only the SHA-256 of the
secret is stored. That is enough, and a slow password hash would be wrong here: the secret has 256 random bits, so it
cannot be guessed at any speed, while a slow hash on every request would let anybody keep the server busy.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec

from ...model.errors import CommandRefused, InvalidValue, NotFound, StoreError
from ...model.store.entries import Entry, EntryWrite
from ...model.store.messages import Audit
from ...model.time.instants import SECOND, Micros, maybe_datetime, to_datetime
from ...model.values.access import Role, Secret, role
from ...model.values.ids import Chance
from ...model.values.reading import duration, identifier, words
from ..auditing import audit_record
from ..ports import Store
from ..render.entities import Instant, JsonForm, rendered

PAGE = 1_000
LONGEST_LIFE = 10 * 366 * 86_400.0

TokenStatus: TypeAlias = Literal["active", "expired", "revoked"]

_TEXT = re.compile(r"mainspring_([0-9a-f]{16})_([0-9a-f]{64})")


class TokenNotFound(NotFound):
    noun = "token"

    def __str__(self) -> str:
        return f"no API token with the id or name {self.name!r}"


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A stored token. `digest` is the hash of the secret; `last_used` is accurate to about a minute."""

    id: str
    name: str
    role: Role
    digest: str
    created: Micros
    created_by: str
    expires: Micros | None = None
    last_used: Micros | None = None
    revoked: Micros | None = None
    revoked_by: str | None = None
    version: int = 0

    def proven_by(self, secret: str) -> bool:
        """Compares in constant time, so that the duration reveals nothing about the secret."""
        return hmac.compare_digest(self.digest, digest_of(secret))

    def state(self, now: Micros) -> TokenStatus:
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else "active"

    def view(self, now: Micros) -> TokenView:
        return TokenView(
            id=self.id,
            name=self.name,
            role=self.role,
            status=self.state(now),
            created_at=to_datetime(self.created),
            created_by=self.created_by,
            expires_at=maybe_datetime(self.expires),
            last_used_at=maybe_datetime(self.last_used),
            revoked_at=maybe_datetime(self.revoked),
            revoked_by=self.revoked_by,
        )


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    """An API token, without its secret."""

    id: str
    """Its id."""
    name: str
    """Its name."""
    role: Role
    """What it permits."""
    status: TokenStatus
    """Whether it is active, expired or revoked."""
    created_at: datetime
    """When it was created."""
    created_by: str
    """Who created it."""
    expires_at: datetime | None
    """When it expires; None for never."""
    last_used_at: datetime | None
    """When it was last used, to within about a minute."""
    revoked_at: datetime | None
    """When it was revoked."""
    revoked_by: str | None
    """Who revoked it."""


class NewToken(msgspec.Struct, frozen=True):
    """A token that was just created, with its text, which is never available again."""

    token: TokenView
    """The token without its text."""
    text: Secret
    """The text that clients send; it is not stored."""


def parts_of(text: str) -> tuple[str, str] | None:
    """The id and the secret; None if the text is not an API token."""
    match = _TEXT.fullmatch(text)
    return None if match is None else (match[1], match[2])


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


class Tokens:
    def __init__(self, store: Store, chance: Chance, entropy: Callable[[int], bytes] = os.urandom) -> None:
        self._store, self._chance, self._entropy = store, chance, entropy

    async def create(self, name: str, role_name: str, *, expires: Any = None, by: str) -> NewToken:
        """Create a token that is valid for `expires`, or until it is revoked."""
        now = await self._store.now()
        id, secret = self._entropy(8).hex(), self._entropy(32).hex()
        token = Token(
            id=id,
            name=identifier("name", name),
            role=role("role", role_name),
            digest=digest_of(secret),
            created=now,
            created_by=words("by", by),
            expires=None if expires is None else now + round(_life(expires) * SECOND),
        )
        audit = self._audit("create", token, by, now, after=_summary(token))
        if not await self._write(token, 0, audit):
            raise StoreError(f"the id {id} of the new token is taken; try again")
        return NewToken(token.view(now), Secret(f"mainspring_{id}_{secret}"))

    async def all(self) -> list[TokenView]:
        """Every token, including expired and revoked ones, oldest first."""
        tokens, now = await self._all(), await self._store.now()
        return [token.view(now) for token in tokens]

    async def find(self, id: str) -> Token | None:
        entries = await self._store.entries("token", "", [id])
        return _decoded(entries[0]) if entries else None

    async def revoke(self, ref: str, *, by: str) -> TokenView:
        """Revoke a token by id, or by a name that only one active token has."""
        words("by", by)
        while True:
            now = await self._store.now()
            token = await self._named(ref, now)
            if token.revoked is not None:
                raise CommandRefused("revoke", "revoked", ["active", "expired"], f"token {token.id}")
            revoked = msgspec.structs.replace(token, revoked=now, revoked_by=by)
            audit = self._audit("revoke", token, by, now, before=_summary(token), after=_summary(revoked))
            if await self._write(revoked, token.version, audit):
                return revoked.view(now)

    async def revoke_id(self, id: str, *, by: str) -> TokenView:
        """Revoke a token by id only."""
        if await self.find(id) is None:
            raise TokenNotFound(id)
        return await self.revoke(id, by=by)

    async def used(self, token: Token) -> Token:
        """Record that it was used now. Gives way to any other write of the entry, such as its revocation."""
        noted = msgspec.structs.replace(token, last_used=await self._store.now())
        won = await self._write(noted, token.version, None)
        return msgspec.structs.replace(noted, version=token.version + 1) if won else token

    # --- inside -------------------------------------------------------------------------------------------
    async def _all(self) -> list[Token]:
        tokens: list[Token] = []
        after = ""
        while page := await self._store.list_entries("token", "", after=after, limit=PAGE):
            tokens += [token for entry in page if (token := _decoded(entry)) is not None]
            after = page[-1].key
        return sorted(tokens, key=lambda token: (token.created, token.id))

    async def _named(self, ref: str, now: Micros) -> Token:
        found = await self.find(ref)
        if found is not None:
            return found
        same = [token for token in await self._all() if token.name == ref]
        active = [token for token in same if token.state(now) == "active"] or same
        if not active:
            raise TokenNotFound(ref)
        if len(active) > 1:
            ids = ", ".join(token.id for token in active)
            raise InvalidValue("token", ref, f"one of the ids {ids}", "Several tokens have this name")
        return active[0]

    async def _write(self, token: Token, seen_version: int, audit: Audit | None) -> bool:
        body = msgspec.json.encode(msgspec.structs.replace(token, version=0)).decode()
        entry = Entry(kind="token", key=token.id, body=body)
        return (await self._store.write_entries([EntryWrite(entry=entry, seen_version=seen_version, audit=audit)]))[0]

    def _audit(self, action: str, token: Token, by: str, now: Micros, **details: str) -> Audit:
        return audit_record(self._chance, action, f"token:{token.id}", by, now, **details)


class TokenJson(JsonForm):
    id: str
    name: str
    role: Role
    status: TokenStatus
    created_at: Instant
    created_by: str
    expires_at: Instant | None
    last_used_at: Instant | None
    revoked_at: Instant | None
    revoked_by: str | None


def token_json(token: TokenView) -> dict[str, Any]:
    return rendered(TokenJson, token)


def _life(expires: Any) -> float:
    seconds = duration("expires", expires)
    if seconds > LONGEST_LIFE:
        raise InvalidValue("expires", expires, "at most 10 years", "Leave it out for a token without an end")
    return seconds


def _decoded(entry: Entry) -> Token | None:
    """None for a token that this release cannot read, such as one with an unknown role: it grants nothing."""
    token = entry.read(Token)
    return None if token is None else msgspec.structs.replace(token, version=entry.version)


def _summary(token: Token) -> str:
    """For the audit: everything but the digest."""
    fields = {
        "name": token.name,
        "role": token.role,
        "expires": maybe_datetime(token.expires),
        "revoked": maybe_datetime(token.revoked),
    }
    return msgspec.json.encode({name: value for name, value in fields.items() if value}).decode()
