"""Types that the fields of requests share. Requests are strict: a number is not a text, an unknown field is an error,
and everything has a bound.

What a value means is not decided here: names, durations, schedules and instants are read by the rules of core.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, get_args

from fastapi.routing import APIRoute
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ...model.execution import State
from ...model.job import JobState

PAGE = 50
MOST_PER_PAGE = 200
MOST_OFFSET = 10_000
MOST_FIELDS = 200
"""No request has as many."""


def _whole(value: Any) -> Any:
    """JSON has one kind of number: 3.0 is a whole number, as JSON Schema has it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_whole)
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,100}$")]
NO_NUL = r"^[^\x00]*$"  # which no store takes
Text = Annotated[str, Field(max_length=1_000, pattern=NO_NUL)]
Short = Annotated[str, Field(min_length=1, max_length=200, pattern=NO_NUL)]
Cursor = Annotated[
    str,
    Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", description="`next_cursor` of the previous page."),
]
"""The cursor of a list whose items have ids that sort by time."""
Offset = Annotated[int, Field(ge=0, le=MOST_OFFSET, description="How many items to skip; not together with `cursor`.")]
Limit = Annotated[int, Field(ge=1, le=MOST_PER_PAGE)]
Instant = Annotated[str, Field(min_length=1, max_length=64, description="ISO 8601 with an offset, or a trailing Z.")]
LocalTime = Annotated[
    str, Field(min_length=1, max_length=64, description="ISO 8601; without an offset, in the zone of the job.")
]
Duration = Annotated[
    float | Annotated[str, Field(min_length=1, max_length=32)],
    Field(description='Seconds, or text such as "250ms", "10m", "1h30m".'),
]
Params = Annotated[dict[str, Any], Field(description="Parameters of the handler, checked against its signature.")]
JobStateName = Annotated[JobState, Field(strict=False)]  # in JSON a state is its name
StateName = Annotated[State, Field(strict=False)]
Reason = Annotated[str, Field(min_length=1, max_length=1_000, pattern=NO_NUL)]


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, given: Any) -> Any:
        """Each unknown field is an error of its own, so thousands of them are refused together."""
        if isinstance(given, dict) and len(given) > MOST_FIELDS and cls.model_config.get("extra") == "forbid":
            raise ValueError(f"an object of at most {MOST_FIELDS} fields")
        return given


class QueryFields(Strict):
    """Query parameters are text: numbers and switches are read from it."""

    model_config = ConfigDict(strict=False)


def known_fields(route: object, location: Sequence[Any]) -> list[str]:
    """The fields that are allowed beside the unknown one at this location, such as `("body", "filter", "colour")`."""
    models = list(_models_of(route, str(location[0]))) if location else []
    for part in location[1:-1]:
        inner = [each for model in models if part in model.model_fields for each in _inner(model, part)]
        models = inner or _tagged(models, part) or models  # a place in a list, or the name of a choice, is no field
    return sorted({name for model in models for name in model.model_fields})


def without_tag(route: object, location: Sequence[Any]) -> Sequence[Any]:
    """The place in the request. Where a body may be one of several models, pydantic adds the tag of the one that it
    was compared with: `("body", "jobs", "filter")`."""
    tagged = len(location) > 1 and _tagged(list(_models_of(route, str(location[0]))), location[1])
    return (location[0], *location[2:]) if tagged else location


def _tagged(models: Sequence[type[BaseModel]], tag: Any) -> list[type[BaseModel]]:
    return [
        model for model in models if any(get_args(each.annotation) == (tag,) for each in model.model_fields.values())
    ]


def _models_of(route: object, place: str) -> Iterator[type[BaseModel]]:
    if not isinstance(route, APIRoute):
        return
    asked = [route.body_field] if place == "body" else getattr(route.dependant, f"{place}_params", [])
    for field in asked:
        if field is not None:
            yield from _models(field.field_info.annotation)


def _inner(model: type[BaseModel], name: str) -> Iterator[type[BaseModel]]:
    return _models(model.model_fields[name].annotation)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Every model in a type: `list[Limit] | None` contains Limit."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)
