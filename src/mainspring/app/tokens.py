"""The part of the application object that is about API tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.access.api_tokens import NewToken, Token

if TYPE_CHECKING:
    from ..core.access.api_tokens import Tokens
    from .parts import Parts


class TokenMethods:
    if TYPE_CHECKING:

        async def _ready(self) -> Parts: ...

    async def create_token(self, name: str, role: str, *, expires: Any = None, by: str = "system") -> NewToken:
        """A new API token; its text is known now and never again. `expires` is how long it is good for."""
        return await (await self._tokens()).create(name, role, expires=expires, by=by)

    async def tokens(self) -> list[Token]:
        """Every API token there is or was, oldest first; none of them with its secret."""
        return await (await self._tokens()).all()

    async def revoke_token(self, ref: str, *, by: str = "system") -> Token:
        """End a token, by its id or its name; running servers follow within seconds."""
        return await (await self._tokens()).revoke(ref, by=by)

    async def find_token(self, id: str) -> Token | None:
        """For the HTTP interface, which knows the id from the token's text."""
        return await (await self._tokens()).find(id)

    async def note_token_use(self, token: Token) -> Token:
        return await (await self._tokens()).used(token)

    async def note_failed_login(self, address: str, limit: int) -> float:
        """For the HTTP interface: count it over all processes. The seconds to wait, if there were too many."""
        return await (await self._ready()).login_failures.add(address, limit)

    async def _tokens(self) -> Tokens:
        return (await self._ready()).tokens
