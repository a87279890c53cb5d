"""Lists that are short enough to be read whole: filtered, sorted and cut into pages here, all in the same way.

Each says by which fields it can be filtered and sorted; `q` looks for part of a name in all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from ...model.backfill import BackfillState
from ...model.values.access import Role
from .answers import Backfill, Handler, Lock, Output, Worker
from .commands import MOST_OFFSET, MOST_PER_PAGE, NO_NUL, Name, Short, Strict
from .management_answers import CalendarSummary, Token
from .templates import Template

# --- what may be asked for ----------------------------------------------------------------------------------------

_PAGING = frozenset({"q", "sort", "limit", "offset"})


class _List(Strict):
    model_config = ConfigDict(strict=False)

    q: Annotated[str | None, Field(max_length=200, pattern=NO_NUL, description="Part of a name.")] = None
    limit: Annotated[int, Field(ge=1, le=MOST_PER_PAGE)] = MOST_PER_PAGE
    offset: Annotated[int, Field(ge=0, le=MOST_OFFSET)] = 0


class WorkerList(_List):
    role: Literal["scheduler", "worker", "api"] | None = None
    queue: Annotated[Short | None, Field(description="Takes from this queue.")] = None
    handler: Annotated[Short | None, Field(description="Has this code.")] = None
    sort: Literal[
        "id", "-id", "host", "-host", "started_at", "-started_at", "last_heartbeat_at", "-last_heartbeat_at"
    ] = "id"


class HandlerList(_List):
    known_here: bool | None = None
    sort: Literal["name", "-name"] = "name"


class LockList(_List):
    owner: Short | None = None
    sort: Literal["name", "-name", "acquired_at", "-acquired_at", "expires_at", "-expires_at"] = "name"


class CalendarList(_List):
    origin: Literal["code", "operator"] | None = None
    sort: Literal["name", "-name", "updated_at", "-updated_at"] = "name"


class TokenList(_List):
    role: Role | None = None
    status: Literal["active", "expired", "revoked"] | None = None
    sort: Literal["created_at", "-created_at", "name", "-name", "last_used_at", "-last_used_at"] = "created_at"


class TemplateList(_List):
    handler: Short | None = None
    sort: Literal["name", "-name", "created_at", "-created_at", "updated_at", "-updated_at"] = "name"


class BackfillList(_List):
    job: Name | None = None
    status: BackfillState | None = None
    limit: Annotated[int, Field(ge=1, le=MOST_PER_PAGE)] = 20
    sort: Literal["created_at", "-created_at"] = "-created_at"


# --- what is answered ---------------------------------------------------------------------------------------------


class _Listed(Output):
    total: Annotated[int, Field(description="How many there are on all pages.")]
    limit: int
    offset: int


class Workers(_Listed):
    items: list[Worker]


class Handlers(_Listed):
    items: list[Handler]


class Locks(_Listed):
    items: list[Lock]


class Calendars(_Listed):
    items: list[CalendarSummary]


class Tokens(_Listed):
    items: list[Token]


class Templates(_Listed):
    items: list[Template]


class Backfills(_Listed):
    items: list[Backfill]


def listed(shapes: Iterable[Mapping[str, Any]], wanted: _List) -> dict[str, Any]:
    """One page of these, by the fields that were asked for. A field that is a list has to hold what is wanted, and one
    that is null (all queues) holds everything."""
    filters = wanted.model_dump(mode="json", exclude_none=True, exclude=set(_PAGING))
    part = (wanted.q or "").lower()
    found = [shape for shape in shapes if part in _name(shape) and _fits(shape, filters)]
    sort = str(getattr(wanted, "sort", "name"))
    field, backwards = sort.removeprefix("-"), sort.startswith("-")
    found.sort(key=lambda shape: (shape[field] is not None, shape[field] or "", _name(shape)), reverse=backwards)
    items = found[wanted.offset : wanted.offset + wanted.limit]
    return {"items": items, "total": len(found), "limit": wanted.limit, "offset": wanted.offset}


def _name(shape: Mapping[str, Any]) -> str:
    named = (shape[field] for field in ("name", "id", "host", "job") if shape.get(field))
    return "\n".join(map(str, named)).lower()


def _fits(shape: Mapping[str, Any], filters: Mapping[str, Any]) -> bool:
    return all(_holds(shape.get(name, shape.get(f"{name}s")), wanted) for name, wanted in filters.items())


def _holds(value: Any, wanted: Any) -> bool:
    return value is None or wanted in value if isinstance(value, list | None) else value == wanted
