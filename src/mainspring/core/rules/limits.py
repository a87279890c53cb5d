"""Limits and shares: how a job declares them, and how an execution carries them.

A job names its limits with keys such as `crawl:{tenant}`; each execution gets them with the key filled in. Tenants
share a queue fairly, unless an execution names another share.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from ...model.controls import is_ceiling
from ...model.errors import InvalidValue, nearest
from ...model.execution import ExecutionRow
from ...model.job import Job
from ...model.limits import MAX_KEY, MAX_LIMITS, Limit, decode_limits, encode_limits, printable_key
from ...model.values.payload import presentable
from ...model.values.reading import whole

MAX_WEIGHT = 1_000
MAX_WEIGHTS = 10_000
MAX_FILLED = 400
EVERYBODY_ELSE = "*"
_PLACE = re.compile(r"\{([^{}]*)\}")
_KNOWN = ("tenant", "job", "queue")


# --- as declared


def check_limits(value: Any, parameters: Collection[str] | None = None) -> tuple[Limit, ...]:
    """One limit or several, as `Limit` or in JSON form. `parameters` are those of the handler, where they are known: a
    key with a placeholder that nothing fills would be one limit for everything."""
    given = [value] if isinstance(value, Limit | Mapping) else value
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise InvalidValue("limits", presentable(value), 'limits such as Limit("partner-api", rate="50/s")')
    limits = tuple(_limit(each) for each in given)
    if len(limits) > MAX_LIMITS:
        raise InvalidValue("limits", len(limits), f"at most {MAX_LIMITS} limits")
    if len({limit.key for limit in limits}) < len(limits):
        raise InvalidValue("limits", [limit.key for limit in limits], "limits with keys of their own")
    for limit in limits:
        if len(limit.key) > MAX_KEY:
            raise InvalidValue("limits.key", limit.key, f"at most {MAX_KEY} characters")
        _check_places(limit.key, parameters)
    return limits


def _limit(value: Any) -> Limit:
    if isinstance(value, Limit):
        return value
    if not isinstance(value, Mapping):
        raise InvalidValue("limits", presentable(value), 'a limit such as Limit("partner-api", rate="50/s")')
    unknown = [name for name in value if name not in Limit.__struct_fields__]
    if unknown or "key" not in value:
        wrong = f"there is no {unknown[0]!r}" if unknown else "key is missing"
        raise InvalidValue("limits", presentable(value), f"an object of {', '.join(Limit.__struct_fields__)}; {wrong}")
    return Limit(**value)


def _check_places(key: str, parameters: Collection[str] | None) -> None:
    for place in _PLACE.findall(key):
        prefix, _, name = place.rpartition(".")
        if prefix == "params" and name.isidentifier():
            if parameters is not None and name not in parameters:
                places = [f"{{params.{each}}}" for each in parameters]
                raise InvalidValue("limits.key", key, "parameters that the handler has", _meant(f"{{{place}}}", places))
        elif place not in _KNOWN:
            meant = [f"params.{place}", *_KNOWN] if parameters is not None and place in parameters else _KNOWN
            allowed = "a key with no other placeholders than {tenant}, {job}, {queue} or {params.name}"
            raise InvalidValue("limits.key", key, allowed, _meant(f"{{{place}}}", [f"{{{each}}}" for each in meant]))
    if "{" in _PLACE.sub("", key) or "}" in _PLACE.sub("", key):
        raise InvalidValue("limits.key", key, "a key whose braces are closed, such as crawl:{tenant}")


def _meant(place: str, places: list[str]) -> str:
    guess = nearest(place, places)
    return f"{place} is not known{f'; did you mean {guess}?' if guess else ''}"


def parameters_in_keys(limits: Iterable[Limit]) -> set[str]:
    """The names of the parameters whose values are part of the keys of these limits."""
    places = (place.rpartition(".") for limit in limits for place in _PLACE.findall(limit.key))
    return {name for prefix, _, name in places if prefix == "params"}


def check_weights(value: Any) -> dict[str, int]:
    """How much of a queue each tenant gets: 2 is twice as much as 1; "*" stands for every tenant without its own."""
    if not isinstance(value, Mapping) or len(value) > MAX_WEIGHTS:
        raise InvalidValue("weights", presentable(value), 'weights of tenants such as {"acme": 3, "*": 1}')
    for tenant, weight in value.items():
        if not isinstance(tenant, str) or not tenant:
            raise InvalidValue("weights", presentable(tenant), "names of tenants")
        whole(f"weights.{tenant}", weight, 1, MAX_WEIGHT)
    return dict(value)


# --- as an execution carries them


def sharing(job: Job, share: str | None) -> dict[str, Any]:
    """The fields by which an execution takes its turn among the tenants of its queue."""
    if share is None:
        return {}
    weights = job.spec.weights
    weight = weights.get(share, weights.get(EVERYBODY_ELSE, 1)) if weights else 1
    return {"share": share} if weight == 1 else {"share": share, "weight": weight}


def depends_on_execution(job: Job) -> bool:
    """Whether the keys of its limits differ between executions."""
    return any("{" in limit.key for limit in job.spec.limits)


def limits_of(job: Job, *, tenant: str | None, queue: str, params: str) -> str | None:
    """The limits that one execution carries; `params` are its encoded parameters."""
    if not job.spec.limits:
        return None
    if not depends_on_execution(job):
        return encode_limits(job.spec.limits)
    known = {"tenant": tenant, "job": job.name, "queue": queue}
    arguments: dict[str, Any] = {}
    if any("{params." in limit.key for limit in job.spec.limits):
        arguments = msgspec.json.decode(params)

    def filled(place: re.Match[str]) -> str:
        name = place[1]
        value = known[name] if name in known else arguments.get(name.removeprefix("params."))
        return "-" if value is None else _in_key(value)

    return encode_limits(
        msgspec.structs.replace(limit, key=_PLACE.sub(filled, limit.key)[:MAX_FILLED]) for limit in job.spec.limits
    )


def _in_key(value: Any) -> str:
    """One value as it stands in a key. PostgreSQL does the same for requests in SQL (functions/enqueue/filled.sql)."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return printable_key(text[:MAX_KEY])


def fan_out_key(parent_id: str) -> str:
    """The key of the limit that `tenant_concurrency` sets for the tenants of one parent."""
    return f"fan-out:{parent_id}"


def limit_words(waiting: ExecutionRow, key: str) -> str:
    """Why an execution waits for this limit.

    >>> waits = ExecutionRow(id="e", job="j", job_id="i", handler="h", limits='[{"key":"crawl:a","concurrency":2}]')
    >>> limit_words(waits, "crawl:a")
    '2 run under the limit crawl:a'
    """
    limit = limit_of(waiting, key)
    if is_ceiling(key) and limit is not None:
        rate = limit.concurrency is None
        most = f"{rate_words(limit.per_second or 0.0)} may begin" if rate else f"{limit.concurrency} may run at once"
        return f"of its queue {waiting.queue!r} at most {most}, a ceiling that an operator set"
    if limit is not None and limit.concurrency is None:
        return f"at most {rate_words(limit.per_second or 0.0)} may begin ({key})"
    most = "as many as may" if limit is None else str(limit.concurrency)
    if waiting.parent_id is not None and key == fan_out_key(waiting.parent_id):
        return f"{most} tenants of execution {waiting.parent_id} run, as many as tenant_concurrency allows"
    return f"{most} run under the limit {key}"


def rate_words(per_second: float) -> str:
    """In the first unit in which it is a whole number, or else in which it is one at least.

    >>> [rate_words(each) for each in (50.0, 100 / 60, 0.5, 1 / 3600, 10 / 86_400)]
    ['50 a second', '100 a minute', '30 a minute', '1 an hour', '10 a day']
    """
    units = ((1, "a second"), (60, "a minute"), (3600, "an hour"), (86_400, "a day"))
    found = [(per_second * seconds, unit) for seconds, unit in units if per_second * seconds >= 1 - 1e-9]
    whole = (each for each in found if abs(each[0] - round(each[0])) < 1e-6)
    number, unit = next(whole, found[0] if found else (per_second * 86_400, "a day"))
    return f"{number:g} {unit}"


def limit_of(execution: ExecutionRow, key: str) -> Limit | None:
    return next((each for each in decode_limits(execution.limits or "[]") if each.key == key), None)


def added_limit(limits: str | None, limit: Limit) -> str:
    """These limits and one more that Mainspring itself sets."""
    known = () if limits is None else decode_limits(limits)
    text = encode_limits((*known, limit))
    assert text is not None
    return text
