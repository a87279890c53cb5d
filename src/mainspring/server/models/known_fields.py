"""Which fields a request may have where it has one that is not known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, get_args

from fastapi.routing import APIRoute
from pydantic import BaseModel


def known_fields(route: object, location: Sequence[Any]) -> list[str]:
    """The fields beside the one at this location, such as `("body", "filter", "colour")`; none if nobody knows."""
    models = list(_models_of(route, str(location[0]))) if location else []
    for part in location[1:-1]:
        inner = [each for model in models if part in model.model_fields for each in _inner(model, part)]
        models = inner or models  # a place in a list, or the name of a choice, is no field
    return sorted({name for model in models for name in model.model_fields})


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
    """Every model that a type speaks of: `list[Limit] | None` speaks of Limit."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)
