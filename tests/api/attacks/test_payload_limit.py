"""Parameters are bounded on every way in, and JSON by its values and levels before it is read."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from mainspring import Mainspring
from mainspring.core.declaring.job_specs import edited_fields, job_spec
from mainspring.model.errors import ConfigurationError, InvalidValue
from mainspring.model.values.json_text import MOST_LEVELS, MOST_LONG_NUMBERS, MOST_VALUES
from tests.api.attacks.hostile_requests import FORM
from tests.api.client import LOCAL

pytestmark = pytest.mark.req("SEC-2")

LIMIT = 2_048
LARGE = {"blob": "x" * LIMIT}
ALLOWED = f"at most {LIMIT} bytes of JSON"
WAYS: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/api/v1/jobs", {"handler": "takes", "params": LARGE}),
    ("PUT", "/api/v1/jobs/takes", {"params": LARGE}),
    ("POST", "/api/v1/jobs/takes/trigger", {"params": LARGE}),
    ("POST", "/jobs/takes", LARGE),
    ("POST", "/api/v1/templates", {"name": "large", "handler": "takes", "params": LARGE}),
    ("PUT", "/api/v1/templates/small", {"params": LARGE}),
    ("POST", "/api/v1/templates/small/jobs", {"name": "made", "params": LARGE}),
    ("POST", "/api/v1/backfills", {"job": "windows", "params": LARGE}),
    ("POST", "/api/v1/bulk", {"target": "executions", "action": "edit", "filter": {"job": "takes"}, "params": LARGE}),
]


def _app(**settings: Any) -> Mainspring:
    app = Mainspring("memory://", payload_limit=LIMIT, **settings)

    @app.job("takes")
    async def takes(blob: Any = None, other: Any = None) -> None: ...

    @app.job("windows", cron="0 3 * * *", window="yesterday")
    async def windows(blob: Any = None) -> None: ...

    return app


async def test_large_parameters_are_refused_on_every_way_in() -> None:
    async with _app() as app, _client(app) as client:
        assert (await client.post("/api/v1/templates", json={"name": "small", "handler": "takes"})).status_code == 201
        for method, path, body in WAYS:
            answer = await client.request(method, path, json=body)
            assert answer.status_code == 400, (method, path, answer.text)
            assert answer.json()["error"]["details"][0]["field"] == "params", (method, path)
            assert ALLOWED in answer.json()["error"]["message"], (method, path, answer.text)
        for path in ("/dashboard/jobs/takes/trigger", "/dashboard/jobs/takes/edit"):
            answer = await _form(client, path, params=json.dumps(LARGE), partial="1")
            assert answer.status_code in (400, 422), path
            assert ALLOWED in answer.text, (path, answer.text[:2_000])
        assert (await client.get("/api/v1/jobs/takes")).json()["params"] == {}


async def test_declared_parameters_follow_the_setting() -> None:
    app = _app()
    app.schedule("large", "takes", params=LARGE)
    with pytest.raises((InvalidValue, ConfigurationError), match=ALLOWED):
        await app.start()
    await app.stop()


def test_a_job_with_more_than_a_lowered_limit_can_still_be_edited() -> None:
    spec = job_spec("takes", None, {"params": LARGE})
    assert edited_fields(spec, None, {"priority": 3}, LIMIT) == {"priority": 3}
    with pytest.raises(InvalidValue, match=ALLOWED):
        edited_fields(spec, None, {"params": LARGE}, LIMIT)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ("[" * 400 + "]" * 400, f"at most {MOST_LEVELS} levels"),
        (json.dumps([0] * (MOST_VALUES + 1)), f"at most {MOST_VALUES:,} values"),
        (json.dumps([{"a": "b"}] * MOST_VALUES), f"at most {MOST_VALUES:,} values"),
        (json.dumps(["a"] * (3 * MOST_VALUES)), f"at most {MOST_VALUES:,} values"),
        (f"[{'1e-300,' * MOST_LONG_NUMBERS}1e300]", f"at most {MOST_LONG_NUMBERS}"),
        (f"[{'1,' * 9}{'1' * 25 * MOST_LONG_NUMBERS}.5e-123]", f"at most {MOST_LONG_NUMBERS}"),
    ],
    ids=["levels", "numbers", "objects", "texts", "exponents", "digits"],
)
async def test_json_is_bounded_before_it_is_read(params: str, words: str) -> None:
    async with _app() as app, _client(app) as client:
        for method, path, body in WAYS:
            text = json.dumps(body).replace(json.dumps(LARGE), f'{{"blob": {params}}}')
            answer = await client.request(method, path, content=text, headers={"Content-Type": "application/json"})
            assert answer.status_code == 400, (method, path, answer.text)
            assert words in answer.text, (method, path, answer.text)
        answer = await _form(client, "/dashboard/jobs/takes/trigger", params=f'{{"blob": {params}}}')
        assert answer.status_code == 400
        assert words in answer.text


async def test_commas_and_brackets_inside_texts_are_not_counted() -> None:
    async with _app() as app, _client(app) as client:
        given = {"blob": ',[{\\"' * 100, "other": "\\"}
        assert (await client.put("/api/v1/jobs/takes", json={"params": given})).json()["params"] == given


def _client(app: Mainspring) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=app.asgi(), client=LOCAL)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost:8000")


async def _form(client: httpx.AsyncClient, path: str, **fields: str) -> httpx.Response:
    headers = {"Cookie": f"mainspring_form={FORM}"}
    return await client.post(path, data={"csrf": FORM, **fields}, headers=headers)
