"""Arguments of an assistant's tools stay arguments: none of them turns a call into another one."""

from __future__ import annotations

from urllib.parse import unquote

import httpx2
import pytest

from mainspring import Mainspring
from mainspring.assistants.api_client import Api, client_of_application, headers_of
from mainspring.assistants.operations import Operation, read_operations
from mainspring.model.values.access import Secret

pytestmark = pytest.mark.req("DEV-5", "SEC-2")

VALUES = (
    *("..", ".", "../tokens", "../../tokens", "..%2ftokens", "%2e%2e", "a/b", "a/../b", "//evil.example/x"),
    *(
        "a?force=true",
        "a#b",
        "a;b",
        "\\..\\tokens",
        "a b",
        "a\r\nX-Role-Limit: admin",
        "\u202e",
        "http://evil.example/",
    ),
)


async def test_no_argument_changes_which_operation_is_called() -> None:
    """Clients take dots out of a path, so `..` as the name of a template would call the route that makes any job."""
    document = Mainspring("memory://").asgi().openapi()
    called: list[httpx2.Request] = []

    def note(request: httpx2.Request) -> httpx2.Response:
        called.append(request)
        return httpx2.Response(200, json={})

    async with httpx2.AsyncClient(
        transport=httpx2.MockTransport(note), base_url="http://jobs.example", headers=headers_of(None)
    ) as http:
        for operation in read_operations(document):
            for argument in [each for each in operation.arguments if each.place == "path"]:
                for value in VALUES:
                    await Api(http).call(operation, {argument.name: value})
                    found = called.pop()
                    assert _place(found) == _expected(operation, value), (operation.name, value, str(found.url))
                    assert found.url.host == "jobs.example"
                    assert found.headers["x-role-limit"] == "viewer"


def _place(request: httpx2.Request) -> list[str]:
    path = request.url.raw_path.decode().partition("?")[0]
    return [unquote(part) for part in path.split("/")]


def _expected(operation: Operation, value: str) -> list[str]:
    return [value if part.startswith("{") else part for part in operation.path.split("/")]


async def test_an_assistant_without_a_token_or_with_a_wrong_one_starts_nothing() -> None:
    app = Mainspring("memory://")
    app.job("greet")(lambda: None)
    try:
        async with client_of_application(app, None) as http:
            assert (await http.post("/api/v1/jobs/greet/trigger", json={})).status_code == 403
        async with client_of_application(app, Secret("mainspring_" + "0" * 16 + "_" + "0" * 64)) as http:
            assert (await http.post("/api/v1/jobs/greet/trigger", json={})).status_code == 401
    finally:
        await app.close()
