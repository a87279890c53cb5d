"""Pages of lists: what all of them have in common.

Short lists (workers, locks, calendars, tokens, templates, backfills) are read whole, and filtered, sorted and cut into
pages here. Each says by which fields it can be filtered and sorted; `q` looks for part of a name in all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from msgspec import Meta
from pydantic import Field

from ...core.filters.fields import past_instant
from ...core.render.entities import JobJson, JsonForm
from ...model.errors import InvalidValue
from ...model.time.instants import to_datetime, to_micros
from .fields import MOST_OFFSET, MOST_PER_PAGE, NO_NUL, Limit, QueryFields

MOST_DAYS = 3_660
_PAGING = frozenset({"q", "sort", "limit", "offset", "cursor"})

# --- long lists ---------------------------------------------------------------------------------------------------


class PlaceJson(JsonForm):
    limit: int
    offset: int
    next_cursor: str | None


class PageJson(PlaceJson):
    total: Annotated[int | Literal["10000+"], Meta(description='Exact up to 10000, then "10000+".')]


class JobPageJson(PageJson):
    items: list[JobJson]


class SearchedPageJson(JsonForm):
    limit: int
    offset: int
    next_cursor: Annotated[
        str | None, Meta(description="Continue from here; a page may be shorter than `limit` without being the last.")
    ]


def page(items: Sequence[Any], total: int | str | None, limit: int, offset: int, cursor: str | None) -> dict[str, Any]:
    return {"items": list(items), "total": total, "limit": limit, "offset": offset, "next_cursor": cursor}


def check_paging(offset: int, cursor: str | None) -> None:
    """A cursor says where a page begins: an offset beside it would silently leave items out."""
    if cursor is not None and offset:
        remedy = "Leave offset out to go on from the cursor, or leave cursor out"
        raise InvalidValue("offset", offset, "nothing together with cursor", remedy)


def check_range(since: str | None, until: str | None) -> tuple[datetime | None, datetime | None]:
    """Check that a range of time begins before it ends and is not too long."""
    now = to_micros(datetime.now(UTC))
    begin = None if since is None else to_datetime(past_instant("since", since, now))
    end = None if until is None else to_datetime(past_instant("until", until, now))
    if begin is None or end is None:
        return begin, end
    if end <= begin:
        raise InvalidValue("until", until, "a time after since")
    if end - begin > timedelta(days=MOST_DAYS):
        raise InvalidValue("until", until, f"at most {MOST_DAYS} days after since")
    return begin, end


class SysJobList(QueryFields):
    limit: Annotated[
        int | None, Field(ge=1, le=MOST_PER_PAGE, description="At most this many; all of them if it is left out.")
    ] = None
    cursor: Annotated[
        str | None,
        Field(min_length=1, max_length=100, pattern=NO_NUL, description="The id of the last job of the previous page."),
    ] = None


# --- short lists --------------------------------------------------------------------------------------------------


class ShortList(QueryFields):
    q: Annotated[str | None, Field(max_length=200, pattern=NO_NUL, description="Part of a name.")] = None
    limit: Limit = MOST_PER_PAGE
    offset: Annotated[int, Field(ge=0, le=MOST_OFFSET)] = 0


class ShortListJson(JsonForm):
    total: Annotated[int, Meta(description="How many there are on all pages.")]
    limit: int
    offset: int


def listed(items: Iterable[Mapping[str, Any]], wanted: ShortList) -> dict[str, Any]:
    """One page of these items. A filter on a field that is a list asks for a member of it; null stands for all."""
    filters = wanted.model_dump(mode="json", exclude_none=True, exclude=set(_PAGING))
    part = (wanted.q or "").lower()
    found = [item for item in items if part in _name(item) and _fits(item, filters)]
    sort = str(getattr(wanted, "sort", "name"))
    field, backwards = sort.removeprefix("-"), sort.startswith("-")
    found.sort(
        key=lambda item: (item[field] is not None, "" if item[field] is None else item[field], _name(item)),
        reverse=backwards,
    )
    shown = found[wanted.offset : wanted.offset + wanted.limit]
    return {"items": shown, "total": len(found), "limit": wanted.limit, "offset": wanted.offset}


def _name(item: Mapping[str, Any]) -> str:
    named = (item[field] for field in ("name", "id", "host", "job") if item.get(field))
    return "\n".join(map(str, named)).lower()


def _fits(item: Mapping[str, Any], filters: Mapping[str, Any]) -> bool:
    return all(_holds(item.get(name, item.get(f"{name}s")), wanted) for name, wanted in filters.items())


def _holds(value: Any, wanted: Any) -> bool:
    if value is None:
        return True
    return wanted in value if isinstance(value, list | tuple) else value == wanted
