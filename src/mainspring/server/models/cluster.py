"""Lists of workers, handlers and locks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ...core.render.entities import HandlerJson, LockJson, WorkerJson
from .fields import Short
from .lists import ShortList, ShortListJson


class WorkerList(ShortList):
    role: Literal["scheduler", "worker", "api"] | None = None
    queue: Annotated[Short | None, Field(description="Takes from this queue.")] = None
    handler: Annotated[Short | None, Field(description="Has this code.")] = None
    sort: Literal[
        "id", "-id", "host", "-host", "started_at", "-started_at", "last_heartbeat_at", "-last_heartbeat_at"
    ] = "id"


class WorkersJson(ShortListJson):
    items: list[WorkerJson]


class HandlerList(ShortList):
    known_here: bool | None = None
    sort: Literal["name", "-name"] = "name"


class HandlersJson(ShortListJson):
    items: list[HandlerJson]


class LockList(ShortList):
    owner: Short | None = None
    sort: Literal["name", "-name", "acquired_at", "-acquired_at", "expires_at", "-expires_at"] = "name"


class LocksJson(ShortListJson):
    items: list[LockJson]
