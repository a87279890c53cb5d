"""A corpus of requests that an operator could send to keep the event loop busy.

`generated` makes requests for every operation from its OpenAPI schema: each field in turn as a huge text, list or
object. `written` are requests that name a costly thing: calendars, schedules, ranges, filters, .ics files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

import msgspec

from tests.api.schema_app import Known

LARGE = 900_000
"""Characters: bodies of more than 1 MiB are refused unread."""
HEAD = 40_000
"""Characters of a query; servers refuse longer heads."""
FORM = "0" * 32
FORM_HEADERS = (("cookie", f"mainspring_form={FORM}"),)
FORM_FIELDS = """
    at begin concurrency credential days description end events force format handler id interval_minutes
    jobs limits metadata name note only order overlap owner page params probe queues rate reason
    resume_after resume_at schedule scheme seen since start_at step tag tags tenants timezone to until
    url window_begin window_end hours exclude
""".split()  # noqa: SIM905  # a list of fifty quoted names is harder to read
PREVIEWED = "/dashboard/jobs/{name}/preview"


class Hostile(msgspec.Struct, frozen=True):
    """A request to `operation`, such as `PUT /api/v1/calendars/{name}`."""

    operation: str
    name: str
    path: str
    body: bytes | None = None

    def __str__(self) -> str:
        return f"{self.operation}: {self.name}"

    @property
    def method(self) -> str:
        return self.operation.partition(" ")[0]


def corpus(routes: Mapping[str, Any], document: Mapping[str, Any], known: Known) -> list[Hostile]:
    """`routes` are the operations of the application, dashboard included, by `METHOD /path`."""
    made = [each for operation in routes for each in generated(operation, document, known)]
    return [*made, *written(known)]


# --- generated ------------------------------------------------------------------------------------------------------


def generated(operation: str, document: Mapping[str, Any], known: Known) -> Iterator[Hostile]:
    method, _, template = operation.partition(" ")
    path = address(template, known)
    described = document["paths"].get(template, {}).get(method.lower(), {})
    if method in ("POST", "PUT") and "/dashboard/" in template:
        for name, form in _forms():
            yield Hostile(operation, name, path, form)
    elif method in ("POST", "PUT"):
        for name, body in _bodies(described, document):
            yield Hostile(operation, name, path, body)
    if method == "GET" and "stream" not in template and "live" not in template:
        yield Hostile(operation, "a long query", f"{path}?{'&'.join(f'a{n}=1' for n in range(HEAD // 6))}")
        names = [each["name"] for each in described.get("parameters", ()) if each.get("in") == "query"]
        if names:
            long = "&".join(f"{name}={'9' * (HEAD // len(names))}" for name in names)
            yield Hostile(operation, "long values", f"{path}?{long}")
            yield Hostile(operation, "repeated values", f"{path}?{'&'.join(f'{name}=a' for name in names * 20)}")


def address(template: str, known: Known) -> str:
    """The path with something that exists in place of each parameter, as far as there is something."""
    found = {
        "jobs": known.jobs[0],
        "executions": known.ended[0],
        "bulk": known.bulks[0],
        "backfills": known.backfills[0],
        "templates": known.templates[0],
        "calendars": known.calendars[-1],
        "tokens": known.tokens[0],
        "errors": (known.errors or ["0" * 12])[0],
        "webhooks": known.webhooks[0],
        "hooks": known.hooks[0],
        "workers": known.workers[0],
    }
    area = next((each for each in reversed(template.split("/")) if each in found), "")
    return re.sub(r"\{[^}]+\}", found.get(area, "nothing"), template)


def _bodies(described: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    yield "deep lists", b"[" * LARGE
    yield "deep objects", b'{"params": ' + b'{"a":' * 4_000 + b"1" + b"}" * 4_001
    yield "many unknown fields", _json({f"field{number}": 1 for number in range(40_000)})
    yield "a huge number", b'{"params": {"n": ' + b"9" * LARGE + b"}}"
    schema = described.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    for fields in _objects(schema, document):
        required = dict.fromkeys(fields.get("required", ()), "x")
        fixed = {name: each["const"] for name, each in fields.get("properties", {}).items() if "const" in each}
        names = [name for name in fields.get("properties", {}) if name not in fixed]
        size = LARGE // max(len(names), 1)
        for kind, value in (("text", "9" * size), ("list", ["a"] * (size // 4)), ("object", _wide(size // 15))):
            yield f"every field is a huge {kind}", _json({**required, **fixed, **dict.fromkeys(names, value)})


def _objects(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The objects that a body may be."""
    if "$ref" in schema:
        yield from _objects(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], document)
    for each in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _objects(each, document)
    if "properties" in schema:
        yield schema


@lru_cache(maxsize=1)
def _forms() -> tuple[tuple[str, bytes], ...]:
    """Forms are read whole, so all fields may be hostile at once; refused ones are shown again."""
    whole = {
        "long texts": "x" * 15_000,
        "long numbers": "9" * 15_000,
        "deep lists": "[" * 5_000,
        "lines": "a\n" * 3_000,
    }
    made = {name: [(field, value) for field in FORM_FIELDS] for name, value in whole.items()}
    made["too many fields"] = [(f"params.{number}", "1") for number in range(40_000)]
    made["many fields"] = [(f"param.{number}", "1" * 300) for number in range(1_900)]
    return tuple((name, urlencode([("csrf", FORM), *fields]).encode()) for name, fields in made.items())


def _wide(size: int) -> dict[str, int]:
    return {f"k{number}": number for number in range(size)}


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value)


# --- written --------------------------------------------------------------------------------------------------------


def written(known: Known) -> Iterator[Hostile]:
    for name, body in _calendars():
        yield Hostile("PUT /api/v1/calendars/{name}", name, "/api/v1/calendars/hostile", _json(body))
        yield from _with_calendar(name)
    for name, fields in _schedules():
        yield Hostile("POST /api/v1/jobs", name, "/api/v1/jobs", _json({"handler": "quick", **fields}))
        yield Hostile("PUT /api/v1/jobs/{id}", name, "/api/v1/jobs/hourly", _json(fields))
        template = {"name": f"hostile-{abs(hash(name))}", "handler": "quick", **fields}
        yield Hostile("POST /api/v1/templates", name, "/api/v1/templates", _json(template))
        form = [
            ("csrf", FORM),
            *((key, value if isinstance(value, str) else json.dumps(value)) for key, value in fields.items()),
        ]
        for page in ("preview", "edit"):
            target = f"/dashboard/jobs/hourly/{page}"
            yield Hostile(f"POST /dashboard/jobs/{{name}}/{page}", name, target, urlencode(form).encode())
        yield Hostile("GET " + PREVIEWED, name, f"/dashboard/jobs/hourly/preview?{urlencode(form[1:])[:HEAD]}")
        yield from _asked_after("hourly", name)
    yield from _ranges()
    yield from _filters(known)
    yield from _params(known)


def _with_calendar(name: str) -> Iterator[Hostile]:
    hours = {"hours": {"closed": ["hostile"]}}
    yield Hostile("PUT /api/v1/jobs/{id}", f"{name}, as hours", "/api/v1/jobs/regular", _json(hours))
    yield from _asked_after("regular", name)
    yield Hostile("GET /api/v1/calendars", name, "/api/v1/calendars")
    yield Hostile("GET /api/v1/calendars/{name}", name, "/api/v1/calendars/hostile")


def _asked_after(job: str, name: str) -> Iterator[Hostile]:
    """Whoever looks at the job has to work with what was set."""
    yield Hostile("GET /api/v1/jobs/{id}", f"after {name}", f"/api/v1/jobs/{job}")
    yield Hostile("GET /api/v1/jobs/{id}/why", f"after {name}", f"/api/v1/jobs/{job}/why")
    yield Hostile("GET /api/v1/simulate", f"after {name}", f"/api/v1/simulate?span=31d&job={job}")
    yield Hostile("GET /dashboard/jobs/{name}", f"after {name}", f"/dashboard/jobs/{job}")
    yield Hostile("GET /dashboard/timeline", f"after {name}", "/dashboard/timeline")


def _calendars() -> Iterator[tuple[str, dict[str, Any]]]:
    days = [f"{1900 + number // 336}-{number // 28 % 12 + 1:02}-{number % 28 + 1:02}" for number in range(2_000)]
    yield "2,000 days", {"entries": days}
    yield "2,000 days of every year", {"entries": [f"{n % 12 + 1:02}-{n % 28 + 1:02}" for n in range(2_000)]}
    yield "2,000 weekdays", {"entries": ["sat-sun"] * 2_000}
    yield "2,000 ranges", {"entries": [f"{each}/8999-01-01" for each in days]}
    for name, rule in (
        ("3,000 daily events", "FREQ=DAILY"),
        ("events of ten thousand days", "FREQ=DAILY;COUNT=10000"),
        ("events of every third year", "FREQ=YEARLY;INTERVAL=3"),
        ("rules that rarely match", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=SU"),
        ("a rule that never matches", "FREQ=YEARLY;BYWEEKNO=53;BYMONTH=6"),
        ("positions in a year", "FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYSETPOS=-1,1,100"),
        ("every second, which is refused", "FREQ=SECONDLY"),
    ):
        yield name, {"ics": _ics(rule, 3_000)}
        yield f"{name}, once", {"ics": _ics(rule, 1)}
    yield "many excluded days", {"ics": _ics("FREQ=DAILY", 1, "EXDATE:" + ",".join(["20260102T090000"] * 50_000))}
    yield "deep components", {"ics": "BEGIN:VCALENDAR\r\n" + "BEGIN:VEVENT\r\n" * 50_000}
    yield "a long folded line", {"ics": "BEGIN:VCALENDAR\r\nSUMMARY:" + "x\r\n " * 200_000}


def _ics(rule: str, events: int, more: str = "X-NOTHING:1") -> str:
    event = (
        f"BEGIN:VEVENT\r\nDTSTART:19700101T090000\r\nDTEND:19700101T100000\r\nRRULE:{rule}\r\n{more}\r\nEND:VEVENT\r\n"
    )
    return f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\n{event * events}END:VCALENDAR\r\n"[:LARGE]


def _schedules() -> Iterator[tuple[str, dict[str, Any]]]:
    numbers = ",".join(str(number % 60) for number in range(60_000))
    for name, text in (
        ("a range of cron without an end", "0 0 1--100000000 * *"),
        ("a huge range of cron", "0 0 0 1-100000000 * *"),
        ("a huge step", "*/100000000 * * * *"),
        ("a huge list in cron", f"{numbers} * * * *"),
        ("a list in every field", f"{numbers[:150]} {numbers[:150]} 0-23 1-31 1-12 *"),
        ("a day that never comes", "0 0 30 2 *"),
        ("a rare day", "0 0 29 2 1"),
        ("every second", "* * * * * *"),
        ("words without an end", "every day at 3am and " * 2_000),
        ("many commas", "," * 100_000),
        ("many stars", "* " * 100_000),
        ("any of many", json.dumps({"any_of": ["0 0 * * *"] * 1_000})),
        ("letters like digits", "\u0665 \u0663 * * *"),
    ):
        yield name, {"schedule": text}
    yield "a tiny interval", {"interval_minutes": 1 / 60}
    yield "excluded days", {"schedule": "* * * * *", "hours": {"times": ["09:00-09:01"] * 100, "days": "mon-fri"}}
    yield (
        "hours that are never open",
        {"schedule": "* * * * *", "hours": {"only": ["holidays"], "closed": ["holidays"]}},
    )
    yield "hours of one minute", {"schedule": "30 3 * * *", "hours": {"times": "04:00-04:01", "days": "mon"}}
    yield "many limits", {"limits": [{"key": "{params.a}" * 20, "concurrency": 1}] * 100}
    yield "a long retry", {"retry": {"delays": ["1h"] * 100}}


def _ranges() -> Iterator[Hostile]:
    whole = {"begin": "1900-01-01T00:00:00Z", "end": "2899-01-01T00:00:00Z"}
    for job in ("windows", "frequent"):
        for begin, end in (
            ("1900-01-01T00:00:00Z", "2899-01-01T00:00:00Z"),
            ("2025-01-01T00:00:00Z", "2026-11-01T00:00:00Z"),
        ):
            body = _json({"job": job, "begin": begin, "end": end, "dry_run": True})
            yield Hostile("POST /api/v1/backfills", f"{job} {begin}", "/api/v1/backfills", body)
            query = urlencode({"begin": begin, "end": end})
            for more in ("", "&limit=200&offset=10000", "&state=missing"):
                path = f"/api/v1/jobs/{job}/windows?{query}{more}"
                yield Hostile("GET /api/v1/jobs/{id}/windows", f"{job} {begin}{more}", path)
            form = urlencode({"csrf": FORM, "begin": begin[:16], "end": end[:16], "step": "preview"}).encode()
            yield Hostile(
                "POST /dashboard/jobs/{name}/backfill", f"{job} {begin}", f"/dashboard/jobs/{job}/backfill", form
            )
            path = f"/dashboard/jobs/{job}/backfill?{urlencode({'begin': begin[:16], 'end': end[:16]})}"
            yield Hostile("GET /dashboard/jobs/{name}/backfill", f"{job} {begin}", path)
        trigger = _json({"window": whole})
        yield Hostile(
            "POST /api/v1/jobs/{id}/trigger", f"a long window of {job}", f"/api/v1/jobs/{job}/trigger", trigger
        )
        page = f"/dashboard/jobs/{job}"
        yield Hostile("GET /dashboard/jobs/{name}", f"{job}", page)
    for path in (
        "/api/v1/simulate?span=31d",
        "/api/v1/simulate?span=31d&limit=200&offset=1000",
        "/api/v1/activity?span=7d",
    ):
        yield Hostile(f"GET {path.partition('?')[0]}", path, path)
    for query in ("hours=24", "span=24h", "span=31d", "limit=1000", ""):
        yield Hostile("GET /dashboard/timeline", query, f"/dashboard/timeline?{query}")
    at = {"at": "2899-01-01T00:00:00Z", "to": "2899-01-01T00:00:01Z"}
    for action in ("skip", "move", "restore"):
        body = _json(at if action == "move" else {"at": at["at"]})
        route = f"POST /api/v1/jobs/{{id}}/occurrences/{action}"
        yield Hostile(route, "far away", f"/api/v1/jobs/frequent/occurrences/{action}", body)


def _filters(known: Known) -> Iterator[Hostile]:
    ids = [f"id-{number}" for number in range(1_000)]
    for target in ("executions", "jobs", "errors"):
        action = {"executions": "retry", "jobs": "pause", "errors": "mute"}[target]
        for name, chosen in (
            ("thousands of values", {"filter": {"status": ["failed"] * 100_000}}),
            ("a thousand ids", {"ids": ids}),
            ("a long text", {"filter": {"error": "x" * 200}}),
            ("twenty search keys", {"filter": {"search": [f"key{n}={'v' * 100}" for n in range(20)]}}),
        ):
            body = _json({"target": target, "action": action, "dry_run": True, **chosen})
            yield Hostile("POST /api/v1/bulk", f"{target}, {name}", "/api/v1/bulk", body)
    yield Hostile("POST /api/v1/bulk/jobs", "a thousand", "/api/v1/bulk/jobs", _json({"command": "retry", "ids": ids}))
    body = _json({"command": "retry", "ids": (known.ended * 200)[:1_000]})
    yield Hostile("POST /api/v1/bulk/executions", "one id a thousand times", "/api/v1/bulk/executions", body)
    for path in ("/dashboard/executions", "/dashboard/jobs", "/dashboard/errors", "/dashboard/bulk/new"):
        query = "&".join(f"status=failed&search=a{n}=b" for n in range(1_000))
        yield Hostile(f"GET {path}", "thousands of values", f"{path}?{query}")
    yield Hostile("GET /dashboard/search", "a long text", f"/dashboard/search?q={'x' * HEAD}")
    yield Hostile("GET /dashboard/search", "a hostile text", f"/dashboard/search?q={'a' * 2_000}!")


def _params(known: Known) -> Iterator[Hostile]:
    wide, deep = _wide(50_000), _nested(400)
    secret = {"token": "s" * 100, "blob": {f"password{n}": "hidden" * 3 for n in range(15_000)}}
    for name, params in (
        ("wide", {"blob": wide}),
        ("deep", {"blob": deep}),
        ("long", {"blob": "\x1b" * 140_000}),
        ("secrets", secret),
        ("many values that fit", {"blob": _wide(11_800)}),
        ("much text that fits", {"blob": "<\x1b" * 37_000}),
    ):
        yield Hostile("POST /api/v1/jobs/{id}/trigger", name, "/api/v1/jobs/takes/trigger", _json({"params": params}))
        yield Hostile("POST /jobs/{handler}", name, "/jobs/takes?wait=0s", _json(params))
        yield Hostile("PUT /api/v1/jobs/{id}", name, "/api/v1/jobs/takes", _json({"params": params}))
        yield Hostile("GET /api/v1/jobs/{id}", f"with {name} parameters", "/api/v1/jobs/takes")
        yield Hostile(
            "GET /api/v1/jobs/{id}/executions", f"with {name} parameters", "/api/v1/jobs/takes/executions?limit=200"
        )
        yield Hostile("GET /dashboard/jobs/{name}", f"with {name} parameters", "/dashboard/jobs/takes")
        yield Hostile("GET /dashboard/executions", f"with {name} parameters", "/dashboard/executions?job=takes")
        retry = _json({"params": params})
        path = f"/api/v1/executions/{known.ended[0]}/retry"
        yield Hostile("POST /api/v1/executions/{id}/retry", name, path, retry)
        form = urlencode({"csrf": FORM, "params": json.dumps(params), "step": "preview"}).encode()[:LARGE]
        yield Hostile(
            "POST /dashboard/executions/{id}/edit", name, f"/dashboard/executions/{known.ended[0]}/edit", form
        )
        form = urlencode({"csrf": FORM, "params": json.dumps(params)}).encode()[:LARGE]
        yield Hostile("POST /dashboard/jobs/{name}/trigger", name, "/dashboard/jobs/takes/trigger", form)
        body = _json(
            {"target": "executions", "action": "edit", "filter": {"job": "takes"}, "params": params, "dry_run": True}
        )
        yield Hostile("POST /api/v1/bulk", f"edit, {name}", "/api/v1/bulk", body)
        yield Hostile(
            "POST /api/v1/templates",
            name,
            "/api/v1/templates",
            _json({"name": f"t-{name}", "handler": "takes", "params": params}),
        )
        yield Hostile(
            "POST /api/v1/templates/{name}/jobs", name, f"/api/v1/templates/t-{name}/jobs", _json({"params": params})
        )
    yield from _long_lists()
    tenants = _json({"tenants": [f"tenant-{n}" for n in range(10_000)]})
    yield Hostile("POST /api/v1/jobs/{id}/trigger", "ten thousand tenants", "/api/v1/jobs/each/trigger", tenants)


def _long_lists() -> Iterator[Hostile]:
    """Each item as large as it may be. The edits leave as many records."""
    for number in range(60):
        body = _json({"params": {"blob": str(number) + "<" * 240_000}})
        yield Hostile("POST /api/v1/jobs/{id}/trigger", "one of many", "/api/v1/jobs/takes/trigger", body)
    for number in range(20):
        body = _json({"params": {"blob": [str(number)] * 11_500}})
        yield Hostile("PUT /api/v1/jobs/{id}", "one of many edits", "/api/v1/jobs/takes", body)
    for path in ("/api/v1/jobs/takes/executions", "/api/v1/executions", "/api/v1/audit", "/api/v1/jobs"):
        yield Hostile(f"GET {path}", "large items", f"{path}?limit=200")
    for path in ("jobs/takes", "executions", "changes", "changes/audit", "jobs/takes/edit"):
        yield Hostile(f"GET /dashboard/{path}", "large items", f"/dashboard/{path}")


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value
