"""Requests that set incoming hooks, and lists of hooks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from ...core.render.hooks import HookJson
from ...model.values.webhook_signatures import Style
from .fields import NO_NUL, Duration, Name, Short, Strict
from .lists import ShortList, ShortListJson

SecretText = Annotated[
    str, Field(min_length=1, max_length=500, pattern=NO_NUL, description="Generated when it is left out; not shown.")
]


class HookSet(Strict):
    model_config = ConfigDict(json_schema_extra={"examples": [{"job": "deploy", "style": "github"}]})

    job: Annotated[Name, Field(description="The job to trigger; its handler takes the parameter `payload`.")]
    style: Annotated[Style, Field(description="How the sender signs.")] = "standard"
    secret: SecretText | None = None
    enabled: bool = True


class HookRotate(Strict):
    model_config = ConfigDict(json_schema_extra={"examples": [{"overlap": "24h"}]})

    secret: SecretText | None = None
    overlap: Annotated[Duration, Field(description="How long earlier secrets stay valid.")] = "24h"


class HookList(ShortList):
    job: Short | None = None
    style: Style | None = None
    sort: Literal["name", "-name", "updated_at", "-updated_at"] = "name"


class HooksJson(ShortListJson):
    items: list[HookJson]
