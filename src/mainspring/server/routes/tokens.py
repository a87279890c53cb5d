"""`/api/v1/tokens`: API tokens, for administrators."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from ...core.access.api_tokens import NewToken, TokenJson, token_json
from ...core.commands.idempotency import Answer
from ..access import GuardedRoute
from ..errors import respond
from ..models.lists import listed
from ..models.tokens import NewTokenJson, TokenCreate, TokenList, TokensJson
from ..request import Administering, AdminPosting, json
from ..responses import answers

router = APIRouter(prefix="/api/v1/tokens", tags=["tokens"], route_class=GuardedRoute)

TokenId = Annotated[str, Path(max_length=100, description="The id of the token.", examples=["9f86d081884c7d65"])]


@router.get("", operation_id="list_tokens", responses=answers({200: (TokensJson, "Tokens without secrets.")}))
async def list_tokens(call: Administering, wanted: Annotated[TokenList, Query()]) -> Response:
    """All tokens, including expired and revoked ones, oldest first, without their secrets."""
    return respond(json(listed((token_json(token) for token in await call.engine.tokens.all()), wanted)))


@router.post(
    "",
    operation_id="create_token",
    status_code=201,
    responses=answers({201: (NewTokenJson, "The token, and the only time its text is shown.")}, 409, 422),
)
async def create_token(call: AdminPosting, body: TokenCreate) -> Response:
    """Create a token. The answer to a repeated `Idempotency-Key` shows the token without its text."""
    made: NewToken | None = None

    async def work(_: str | None) -> Answer:
        nonlocal made
        made = await call.engine.tokens.create(body.name, body.role.value, expires=body.expires, by=call.by)
        return json({**token_json(made.token), "token": None}, 201)

    answer = await call.once(work)
    if made is None:
        return answer
    return respond(json({**token_json(made.token), "token": made.text.reveal()}, 201))


@router.delete("/{id}", operation_id="revoke_token", responses=answers({200: (TokenJson, "It is revoked.")}, 404, 409))
async def revoke_token(call: Administering, id: TokenId) -> Response:
    """Revoke a token. Running servers refuse it within seconds. Its record stays in the list."""
    revoked = await call.engine.tokens.revoke_id(id, by=call.by)
    return respond(json(token_json(revoked)))
