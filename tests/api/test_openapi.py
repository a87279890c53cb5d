"""The document: every operation has an id, a role, a tag, words and all its answers; requests have examples."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.openapi.utils import get_openapi

from mainspring.server.openapi import _api_routes
from mainspring.server.responses import answer_schemas
from tests.support import Nodes

EVERY_ROUTE = {"401", "403", "429", "500", "503"}
ADMINISTERED = ("/api/v1/locks", "/api/v1/hooks", "/api/v1/webhooks")
WITHOUT_DETAILS = ("/healthz", "/readyz")
MANAGED = ("CalendarSet", "TokenCreate", "OccurrenceAt", "OccurrenceMove")


@pytest.fixture
def document(memory_nodes: Nodes) -> dict[str, Any]:
    app = memory_nodes.app()

    @app.job("remind")
    def remind(shift_id: str) -> None: ...

    return app.asgi().openapi()


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(method, path, each) for path, item in document["paths"].items() for method, each in item.items()]


@pytest.mark.req("API-9")
def test_every_operation_declares_its_id_role_tag_and_answers(document: dict[str, Any]) -> None:
    found = operations(document)
    ids = [operation["operationId"] for _, _, operation in found]
    assert len(ids) == len(set(ids))
    for method, path, operation in found:
        where = f"{method} {path}"
        assert operation["tags"], where
        assert operation["x-required-role"] in ("viewer", "operator", "admin", "anyone", "signature"), where
        assert operation.get("summary"), where
        if path in WITHOUT_DETAILS:
            continue
        assert set(operation["responses"]) >= EVERY_ROUTE, where
        if "requestBody" in operation:
            assert set(operation["responses"]) >= {"400", "413", "415"}, where
        if method == "post" and operation["x-required-role"] != "signature":  # which have the id of their delivery
            assert "Idempotency-Key" in [each.get("name") for each in operation["parameters"]], where
            assert "422" in operation["responses"], where


def test_roles_are_reading_managing_and_administering(document: dict[str, Any]) -> None:
    for method, path, operation in operations(document):
        role = operation["x-required-role"]
        if path in WITHOUT_DETAILS:
            assert role == "anyone"
        elif path.startswith("/hooks/"):
            assert role == "signature"
        elif path.startswith("/api/v1/tokens") or (path.startswith(ADMINISTERED) and method != "get"):
            assert role == "admin", (method, path)
        else:
            assert role == ("viewer" if method == "get" else "operator"), (method, path)


def test_every_error_has_the_one_shape(document: dict[str, Any]) -> None:
    for method, path, operation in operations(document):
        for status, answer in operation["responses"].items():
            if int(status) >= 400 and path not in WITHOUT_DETAILS:
                schema = answer["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/Error"}, (method, path, status)


def test_references_lead_somewhere_and_bodies_have_examples(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for reference in _references(document):
        kind, _, name = reference.removeprefix("#/components/").partition("/")
        assert name in document["components"][kind], reference
    jobs = ("JobCreate", "JobUpdate", "Pause", "Cancel", "TriggerRequest", "JobBulk")
    for name in (*jobs, "ExecutionBulk", "BackfillCreate", *MANAGED):
        assert schemas[name]["examples"], name
        assert schemas[name]["additionalProperties"] is False, name
    assert "HTTPValidationError" not in schemas


def _references(part: Any) -> list[str]:
    if isinstance(part, dict):
        own = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
        return own + [each for value in part.values() for each in _references(value)]
    return [each for value in part for each in _references(value)] if isinstance(part, list) else []


@pytest.mark.req("API-9")
def test_a_rule_for_keys_holds_for_all_keys(document: dict[str, Any]) -> None:
    """A pattern alone would allow anything under a key that does not fit it, which the routes refuse."""
    [weights, _] = document["components"]["schemas"]["JobCreate"]["properties"]["weights"]["anyOf"]
    assert weights["additionalProperties"] == {"type": "integer", "minimum": 1, "maximum": 1000}
    assert "pattern" in weights["propertyNames"]
    assert "patternProperties" not in str(document["components"])


@pytest.mark.req("API-9")
def test_no_answer_has_the_name_of_a_request(memory_nodes: Nodes) -> None:
    api = memory_nodes.app().asgi()
    requests = get_openapi(title="", version="", routes=api.routes)["components"]["schemas"]
    both = requests.keys() & answer_schemas(_api_routes(api)).keys()
    assert [name for name in both if "enum" not in requests[name]] == []
