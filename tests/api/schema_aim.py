"""Requests that are made up rarely hit anything that exists. Here half of their names and ids become known ones.

Which half, and which one, follows from the value itself, so that the same example is always the same request.
Where the tool itself makes a request that is not the one it means, it is mended here too.
"""

from __future__ import annotations

import itertools
import zlib
from typing import Any
from urllib.parse import quote

from schemathesis import Case
from schemathesis.core.parameters import ParameterLocation

from tests.api.schema_app import CANCELLED, FAILED, PAUSED, SCHEDULED, STOPPED, Known

APT = {"pause": SCHEDULED * 4, "resume": PAUSED * 3, "reactivate": CANCELLED * 6, "retry": FAILED * 4}
_NUMBERS = itertools.count()
_TEXTS = {
    "schedule_time": ["0 * * * *", "0 */6 * * *"],
    "schedule": ["*/5 * * * *", "0 30 3 * * *", "@every 30m", "@once 2090-01-01T00:00:00Z"],
    "timezone": ["UTC", "Europe/Paris", "America/New_York"],
    "begin": ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00+00:00"],
    "end": ["2026-01-03T00:00:00Z", "2026-01-20T00:00:00Z"],
    "since": ["2026-01-01T00:00:00Z"],
    "until": ["2030-01-03T00:00:00Z"],
    "resume_at": ["2090-01-01T00:00:00Z"],
    "wait": ["0", "10ms", "1h"],
    "pace": ["1s"],
    "timeout": ["1m"],
    "run_timeout": ["2m"],
    "max_cpu": ["5m"],
    "max_memory": ["512MB", "1.5GiB"],
    "max_address_space": ["4GB"],
    "grace": ["1h"],
    "window": ["yesterday"],
    "queue": ["default"],
    "at": [f"2090-01-{day:02}T03:00:00Z" for day in range(1, 9)],
    "to": ["2089-12-31T12:00:00Z", "2090-02-01T12:30:00+00:00"],
    "entries": ["12-25", "2026-04-03", "sat-sun", "2026-12-24/2027-01-02"],
    "expires": ["90d", "1h"],
    "secret": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
    "url": ["http://127.0.0.1:1/hook", "https://127.0.0.1:1/other"],
    "overlap": ["24h", "0"],
    "not_before": ["06:00", "23:59:59"],
}


def aim(case: Case, known: Known) -> None:
    """Change the case in place. What is wrong on purpose stays wrong."""
    values = _values(case.operation.path, known)
    for location, container in (
        (ParameterLocation.PATH, case.path_parameters),
        (ParameterLocation.QUERY, case.query),
        (ParameterLocation.BODY, case.body),
    ):
        if isinstance(container, dict) and not _is_negative(case, location):
            for name in list(container):
                if name in values:
                    container[name] = _aimed(container[name], values[name])
    if not _is_negative(case, ParameterLocation.HEADER):
        _renew(case)
    _drop_bad_tag(case)


def fit_path(case: Case) -> None:
    """What schemathesis takes from an answer for a path may be a list of names, and is not quoted: a # in it would cut
    the address short, and the request would be one to another operation."""
    for name, value in case.path_parameters.items():
        one = value[0] if isinstance(value, list) and value else value
        case.path_parameters[name] = quote(one, safe="") if isinstance(one, str) and set(one) & set("#?/") else one


def _is_negative(case: Case, location: ParameterLocation) -> bool:
    return case.meta is not None and case.meta.is_negative_at(location)


def _renew(case: Case) -> None:
    """Made-up keys are much alike, and one that was used before answers instead of the route: most become new ones.
    A made-up tag is that of no job: most become the one of any job."""
    if case.headers is not None and "If-Match" in case.headers and next(_NUMBERS) % 3:
        case.headers["If-Match"] = "*"
    key = None if case.headers is None else case.headers.get("Idempotency-Key")
    if isinstance(key, str) and (number := next(_NUMBERS)) % 8:
        case.headers["Idempotency-Key"] = f"key-{number}"


def _drop_bad_tag(case: Case) -> None:
    """Where the coverage phase wants any value for a header with a pattern, it takes 0, right or wrong. In a request
    that is about something else that would be the reason for every refusal."""
    tag = None if case.headers is None else case.headers.get("If-Match")
    if tag != "0" or case.meta is None:
        return
    about = getattr(case.meta.phase.data, "parameter_location", None)
    if case.meta.generation.mode.is_positive or about is not ParameterLocation.HEADER:
        del case.headers["If-Match"]


def _values(path: str, known: Known) -> dict[str, list[str]]:
    ids = known.jobs
    if "/executions" in path:
        # A stream of what never ends only ends with the patience of the client; most of them should end by themselves.
        ids = known.ended * 4 + known.waiting if path.endswith("/stream") else known.executions
    elif "/backfills" in path:
        ids = known.backfills
    if path.startswith("/api/v1/bulk/{id}"):
        ids = known.bulks
    if "/jobs/{id}" in path or "/bulk/jobs" in path:
        ids = known.jobs
    if "/jobs/{id}" in path:  # few jobs are in the one state that some commands are for
        ids = [*APT.get(path.rpartition("/")[2], ()), *ids]
    if path.startswith("/api/v1/webhooks"):
        ids = [] if path == "/api/v1/webhooks" else known.webhooks
    if path.startswith("/api/v1/tokens"):
        ids = known.tokens
    if path.startswith("/api/v1/workers"):
        ids = known.drained if path.endswith("/undrain") else known.workers
    if path.startswith("/api/v1/errors"):
        ids = known.errors
    if "/occurrences/" in path or path.endswith("/windows"):
        ids = ["windows"] * 20 + known.jobs
    names = (
        known.calendars
        if "/calendars/{name}" in path
        else known.locks
        if "/locks" in path
        else known.templates
        if "/templates/{name}" in path
        else known.hooks
        if path.startswith("/api/v1/hooks")
        else STOPPED
        if path.endswith("{name}/resume")  # of a queue or a handler
        else known.jobs
    )
    apt = ["windows"] if path.endswith("/backfills") else ["hooked"] if "/hooks/{name}" in path else []
    jobs = apt * 20 + known.jobs
    found = {"id": ids, "ids": ids, "job": jobs, "handler": known.handlers, "name": names, "after": ["windows"]}
    return {**_TEXTS, **found}


def _aimed(value: Any, choices: list[str]) -> Any:
    if isinstance(value, list):
        return [_aimed(each, choices) for each in value]
    if not isinstance(value, str) or not choices:
        return value
    number = zlib.crc32(value.encode("utf-8", "surrogatepass"))
    return value if number % 2 else choices[number // 2 % len(choices)]
