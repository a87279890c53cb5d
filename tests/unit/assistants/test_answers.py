"""How answers are cut, and how an assistant learns to go on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mainspring.assistants.answers import MOST_CHARACTERS, page_note, shortened, smaller_limit
from mainspring.assistants.operations import Argument, Operation, read_operations
from mainspring.model.values.access import Role

pytestmark = pytest.mark.req("DEV-5")


def operation(*names: str) -> Operation:
    return Operation(
        name="list_things",
        title="",
        description="",
        method="GET",
        path="/things",
        role=Role.VIEWER,
        tags=(),
        arguments=tuple(Argument(name, "query", name, {}, False) for name in names),
        reads=True,
        is_default=True,
        reversible=False,
        keyed=False,
        has_body=False,
    )


@pytest.mark.parametrize(
    "data",
    [
        {"text": "x" * 1_000_000},
        {"items": ["y" * 100] * 20_000},
        {"deep": {"er": [{"lines": ["z" * 5_000] * 300}] * 20}},
        {"fields": {f"field-{number}": "v" * 190 for number in range(5_000)}},
    ],
)
def test_whatever_is_too_long_is_cut_and_says_so(data: dict[str, Any]) -> None:
    cut = shortened(data)
    assert len(json.dumps(cut, ensure_ascii=False)) <= MOST_CHARACTERS
    assert "cut" in cut["_note"]


def test_what_fits_stays_as_it_is() -> None:
    data = {"items": [{"name": "crawl"}], "note": "the site's own"}
    assert shortened(data) is data


@pytest.mark.parametrize(
    ("takes", "data", "said"),
    [
        (("cursor", "offset"), {"next_cursor": "0199"}, "Go on with cursor='0199'."),
        (("cursor", "offset"), {"next_cursor": None}, "Go on with offset=17."),
        (("after",), {"next_after": 40}, "Go on with after=40."),
        (("since",), {}, "Narrow the question to see others."),
    ],
)
def test_a_smaller_page_says_how_to_go_on(takes: tuple[str, ...], data: dict[str, Any], said: str) -> None:
    assert page_note(operation(*takes), data, {"offset": 10}, 7).endswith(said)


def test_a_smaller_limit_is_smaller_and_at_least_one() -> None:
    assert smaller_limit(["x" * MOST_CHARACTERS * 2], 50) == 22
    assert smaller_limit(["x" * MOST_CHARACTERS * 900], 50) == 1
    assert smaller_limit(["x" * MOST_CHARACTERS], 2) == 1


def test_operations_without_a_role_or_with_other_answers_than_json_are_no_tools() -> None:
    def described(role: str, kind: str) -> dict[str, Any]:
        answers = {"200": {"content": {kind: {}}}}
        extra = {"x-required-role": role, "responses": answers, "parameters": [], "tags": ["t"]}
        return {"get": {"operationId": f"{role}_{kind[-4:]}", "summary": "It", **extra}}

    paths = {f"/{role}/{kind}": described(role, kind) for role in ("viewer", "anyone") for kind in KINDS}
    [found] = read_operations({"paths": paths, "components": {}})
    assert (found.name, found.description) == ("viewer_json", "It.")


KINDS = ("application/json", "text/event-stream")
