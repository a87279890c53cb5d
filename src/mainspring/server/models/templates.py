"""Requests and answers about templates."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from ...core.render.entities import TemplateJson
from .fields import Name, Short
from .jobs import JobFields
from .lists import ShortList, ShortListJson

_EXAMPLE: dict[str, Any] = {
    "name": "nightly-crawl",
    "handler": "crawl",
    "schedule": "0 30 3 * * *",
    "timezone": "Europe/Paris",
    "params": {"depth": 2},
    "max_retries": 5,
}


class TemplateCreate(JobFields):
    """A named handler with fields of a job. Parameters may be incomplete: jobs made from the template add the rest."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    name: Name
    handler: Annotated[Name, Field(description="The handler of jobs created from this template.")]


class TemplateUpdate(JobFields):
    """Only the named fields change; `null` removes a field from the template."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"max_retries": 2}, {"schedule": None}]})

    handler: Name | None = None


class TemplateJob(JobFields):
    """Fields in which the job differs from the template. Parameters and metadata are merged with the template's."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "crawl-news", "params": {"url": "/news"}}]})

    name: Annotated[Name | None, Field(description="Generated when it is left out.")] = None


class TemplateList(ShortList):
    handler: Short | None = None
    sort: Literal["name", "-name", "created_at", "-created_at", "updated_at", "-updated_at"] = "name"


class TemplatesJson(ShortListJson):
    items: list[TemplateJson]
