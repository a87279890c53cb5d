"""The filters of lists and bulk actions in requests, as query parameters or as fields of an object. Both are generated
from the tables in `core/filters`."""

from __future__ import annotations

from types import GenericAlias
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, create_model

from ...core.filters import fields
from .fields import NO_NUL, Duration, Name, Short

MOST_VALUES = 20
"""How often a field may be repeated."""
System = Annotated[bool, Field(description="Also Mainspring's own jobs, whose names begin with `mainspring.`.")]

_KINDS: dict[fields.Kind, Any] = {
    "name": Name,
    "text": Short,
    "pair": Annotated[str, Field(min_length=3, max_length=fields.LONGEST_PAIR, pattern=NO_NUL)],
    "switch": bool,
    "duration": Duration,
    "instant": Annotated[str, Field(min_length=1, max_length=64)],
}


def filter_model(
    name: str, base: type[BaseModel], table: fields.Table, *, without: frozenset[str] = frozenset()
) -> Any:
    """A model with the fields of the table; all of them are optional."""
    wanted = {field.name: _field(field) for field in table.values() if field.name not in without}
    return create_model(name, __base__=base, **wanted)


def _field(field: fields.Field) -> Any:
    kind = Literal[field.choices] if field.kind == "choice" else _KINDS[field.kind]
    if field.several:
        most = len(field.choices) or MOST_VALUES
        kind = Annotated[GenericAlias(list, (kind,)), Field(min_length=1, max_length=most)]
    meaning = f"{field.meaning[0].upper()}{field.meaning[1:]}."
    return Annotated[kind | None, Field(description=meaning)], None
