"""The JSON form of error groups."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from ..errors.commands import ErrorGroupView
from .entities import Instant, JsonForm, rendered


class AffectedJson(JsonForm):
    name: str
    count: Annotated[int, Meta(description="Failed attempts.")]


class MuteJson(JsonForm, rename={"at": "muted_at", "by": "muted_by"}):
    at: Instant
    by: str
    note: str
    until: Instant | None


class SampleJson(JsonForm, rename={"error": "error_message", "traceback": "stack_trace"}):
    execution_id: str
    at: Instant
    error: str
    traceback: str


class ErrorGroupJson(JsonForm):
    id: str
    type: Annotated[str, Meta(description="The type of the exception, or why the attempt failed without one.")]
    message: Annotated[
        str, Meta(description="The message, with placeholders for the parts that differ from failure to failure.")
    ]
    frame: Annotated[str, Meta(description="Where the application's own code failed: module and function.")]
    count: Annotated[int, Meta(description="Failed attempts.")]
    failures: Annotated[int, Meta(description="Failures after which no attempt was left.")]
    first_seen_at: Instant
    last_seen_at: Instant
    trend: Annotated[list[int], Meta(description="Failed attempts in each of the last 24 hours, the oldest first.")]
    jobs: Annotated[list[AffectedJson], Meta(description="The 20 with the most failed attempts.")]
    jobs_total: Annotated[int, Meta(description="How many jobs are affected; counted up to 100.")]
    tenants: Annotated[list[AffectedJson], Meta(description="The 20 with the most failed attempts.")]
    tenants_total: Annotated[int, Meta(description="How many tenants are affected; counted up to 100.")]
    first_release: Annotated[str | None, Meta(description="The release that showed it first.")]
    last_release: Annotated[str | None, Meta(description="The newest release that showed it.")]
    execution_id: Annotated[str | None, Meta(description="The newest execution with this error.")]
    muted: bool
    mute: MuteJson | None


class ErrorGroupDetailJson(ErrorGroupJson):
    sample: Annotated[SampleJson | None, Meta(description="A recent failure with its traceback.")]
    first_sample: SampleJson | None
    open_failures: Annotated[int, Meta(description="Failures for good that were not retried since.")]
    last_retry_id: Annotated[str | None, Meta(description="The newest execution that retried one of them.")]


def error_group_json(view: ErrorGroupView) -> dict[str, Any]:
    return rendered(ErrorGroupJson, view, **_parts(view))


def error_group_detail_json(view: ErrorGroupView) -> dict[str, Any]:
    samples = {
        name: None if sample is None else SampleJson(**_fields(SampleJson, sample))
        for name, sample in (("sample", view.sample), ("first_sample", view.first_sample))
    }
    return rendered(ErrorGroupDetailJson, view, **_parts(view), **samples)


def _parts(view: ErrorGroupView) -> dict[str, Any]:
    return {
        "trend": list(view.trend),
        "jobs": [AffectedJson(name=each.name, count=each.count) for each in view.jobs],
        "tenants": [AffectedJson(name=each.name, count=each.count) for each in view.tenants],
        "mute": None if view.mute is None else MuteJson(**_fields(MuteJson, view.mute)),
    }


def _fields(form: type[JsonForm], source: object) -> dict[str, Any]:
    return {name: getattr(source, name) for name in form.__struct_fields__}
