"""Requests that create API tokens, and lists of tokens."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta
from pydantic import ConfigDict, Field

from ...core.access.api_tokens import TokenJson
from ...model.values.access import Role
from .fields import Name, Strict
from .lists import ShortList, ShortListJson


class TokenCreate(Strict):
    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "ci", "role": "operator", "expires": "90d"}]})

    name: Name
    role: Annotated[Role, Field(strict=False)]
    expires: Annotated[
        str | None, Field(min_length=1, max_length=32, description='How long it is valid, such as "90d".')
    ] = None


class NewTokenJson(TokenJson):
    token: Annotated[
        str | None,
        Meta(description="Its text, shown once and stored nowhere; null in an answer repeated for an Idempotency-Key."),
    ]


class TokenList(ShortList):
    role: Role | None = None
    status: Literal["active", "expired", "revoked"] | None = None
    sort: Literal["created_at", "-created_at", "name", "-name", "last_used_at", "-last_used_at"] = "created_at"


class TokensJson(ShortListJson):
    items: list[TokenJson]
