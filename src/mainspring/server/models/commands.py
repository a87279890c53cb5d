"""Requests that steer a job: pause, cancel, trigger, and single occurrences of its schedule."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from .fields import LocalTime, Params, Reason, Short, Strict


class Empty(Strict):
    """Commands without fields take an empty object, or no body."""


class RetryEdit(Strict):
    """A retry takes the same parameters, with these changes."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"params": {"order_id": 4712}}]})

    params: Annotated[dict[str, Any] | None, Field(description="New values of single parameters; the others stay.")] = (
        None
    )
    remove: Annotated[list[Short] | None, Field(max_length=100, description="Parameters to remove.")] = None


class Pause(Strict):
    model_config = ConfigDict(json_schema_extra={"examples": [{"note": "the shop is closed"}]})

    note: Reason | None = None
    resume_at: LocalTime | None = None


class Cancel(Strict):
    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "wrong month"}]})

    reason: Reason | None = None


class TriggerWindow(Strict):
    begin: LocalTime
    end: LocalTime


class TriggerRequest(Strict):
    model_config = ConfigDict(json_schema_extra={"examples": [{"params": {"url": "http://localhost/once"}}]})

    params: Params | None = None
    window: TriggerWindow | None = None
    tenant: Annotated[Short | None, Field(description="For this tenant alone.")] = None
    tenants: Annotated[list[Short], Field(min_length=1, max_length=10_000)] | None = None


class OccurrenceAt(Strict):
    """One run of the schedule, by the time at which it is due."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"at": "2026-12-24T03:00:00Z"}]})

    at: LocalTime


class OccurrenceMove(OccurrenceAt):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"at": "2026-12-24T03:00:00Z", "to": "2026-12-23T22:00:00Z"}]}
    )

    to: LocalTime
