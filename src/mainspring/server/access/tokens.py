"""Verifies API tokens. A token that was read from the store is cached for a few seconds, so that most requests need no
round trip; a revoked token stops working within that time."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from ...core.access.api_tokens import Token, parts_of
from ...model.time.instants import SECOND, Micros
from .principals import Principal, Unproven

LOG = logging.getLogger("mainspring.access")

FRESH_FOR = 3.0
"""Seconds for which a token is cached, and so how long a revoked one may still work."""
NOTE_EVERY = 60.0
"""Seconds between two updates of when a token was last used, so that not every request writes."""
MOST_KEPT = 1_000

_NOT_VALID = "the API token is not valid"


class TokenSource(Protocol):
    """What knows the tokens."""

    async def find_token(self, id: str) -> Token | None: ...
    async def note_token_use(self, token: Token) -> Token: ...


@runtime_checkable
class HasTokenSource(Protocol):
    """The application object that users hold."""

    @property
    def token_source(self) -> TokenSource: ...


class _CachedToken:
    def __init__(self, token: Token | None, read: float, noted: float) -> None:
        self.token, self.read, self.noted = token, read, noted


class TokenVerifier:
    def __init__(self, source: TokenSource, monotonic: Callable[[], float], now: Callable[[], Micros]) -> None:
        self._source, self._monotonic, self._now = source, monotonic, now
        self._kept: OrderedDict[str, _CachedToken] = OrderedDict()

    async def verify(self, text: str) -> Principal:
        parts = parts_of(text)
        if parts is None:
            raise Unproven(_NOT_VALID)
        id, secret = parts
        kept = await self._cached(id)
        token = kept.token
        if token is None or not token.proven_by(secret):
            raise Unproven(_NOT_VALID)
        state = token.state(self._now())
        if state != "active":  # only a caller with the secret learns this
            raise Unproven(f"the API token is {state}")
        await self._note(kept, token)
        return Principal(token.name, token.role, "token", token.id)

    async def _cached(self, id: str) -> _CachedToken:
        kept = self._kept.get(id)
        began = self._monotonic()  # the token is as fresh as the start of the read
        if kept is None or began - kept.read >= FRESH_FOR:
            token = await self._source.find_token(id)
            kept = _CachedToken(token, began, kept.noted if kept is not None else -NOTE_EVERY)
            self._kept[id] = kept
        self._kept.move_to_end(id)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return kept

    async def _note(self, kept: _CachedToken, token: Token) -> None:
        """Record that the token was used. If that fails, the token is still accepted."""
        recently = self._monotonic() - kept.noted < NOTE_EVERY
        if recently or (token.last_used is not None and self._now() - token.last_used < NOTE_EVERY * SECOND):
            return
        kept.noted = self._monotonic()
        try:
            kept.token = await self._source.note_token_use(token)
        except Exception as error:
            LOG.warning("when token %s was last used could not be noted: %s", token.id, type(error).__name__)
