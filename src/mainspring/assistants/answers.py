"""Answers of the HTTP interface as results of tools: structured, and short enough for an assistant to read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcp.types import CallToolResult, TextContent

from .operations import Operation

MOST_CHARACTERS = 40_000
"""How long a result may be as JSON: about ten thousand tokens."""
NOTE = "_note"
_LONGEST_TEXTS = (4_000, 1_000, 200)


def result_of(data: Mapping[str, Any], *, is_error: bool = False) -> CallToolResult:
    """The data twice, as the protocol asks: structured, and as text for clients that know only that."""
    return CallToolResult(content=[TextContent(text=as_text(data))], structured_content=dict(data), is_error=is_error)


def error_result(error: Mapping[str, Any]) -> CallToolResult:
    return result_of({"error": shortened(dict(error))}, is_error=True)


def as_text(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False)


def as_object(data: Any) -> dict[str, Any]:
    """Results are objects: a plain list becomes the items of one."""
    return data if isinstance(data, dict) else {"items": data}


def is_too_long(data: Any) -> bool:
    return len(as_text(data)) > MOST_CHARACTERS


def smaller_limit(data: Any, limit: int) -> int:
    """How many items of such a page would fit."""
    return max(1, min(limit - 1, int(limit * 0.9 * MOST_CHARACTERS / len(as_text(data)))))


def page_note(operation: Operation, data: Mapping[str, Any], arguments: Mapping[str, Any], limit: int) -> str:
    """How to go on with a page that was made smaller than the one that was asked for."""
    said = f"Only {limit} at a time, so that the answer stays short."
    if operation.takes("cursor") and data.get("next_cursor"):
        return f"{said} Go on with cursor={data['next_cursor']!r}."
    if operation.takes("after") and "next_after" in data:
        return f"{said} Go on with after={data['next_after']}."
    if operation.takes("offset"):
        return f"{said} Go on with offset={int(arguments.get('offset') or 0) + limit}."
    return f"{said} Narrow the question to see others."


def shortened(data: dict[str, Any]) -> dict[str, Any]:
    """The data cut to the bound: long texts first, then long lists. A note says so."""
    for longest in _LONGEST_TEXTS:
        if not is_too_long(data):
            return data
        data = {**_short_texts(data, longest), NOTE: f"Texts longer than {longest:,} characters were cut."}
    most = 100
    while is_too_long(data) and most > 0:
        data = {**_short_lists(data, most), NOTE: f"Long texts were cut, and lists after {most} items."}
        most //= 2
    return data


def _short_texts(data: Any, longest: int) -> Any:
    if isinstance(data, str) and len(data) > longest:
        return f"{data[:longest]}… ({len(data) - longest:,} characters more)"
    return _inside(data, lambda each: _short_texts(each, longest))


def _short_lists(data: Any, most: int) -> Any:
    cut = data[:most] if isinstance(data, list) else data
    if isinstance(data, dict) and len(data) > max(most, 60):
        cut = dict(list(data.items())[: max(most, 60)])
    return _inside(cut, lambda each: _short_lists(each, most))


def _inside(data: Any, change: Any) -> Any:
    if isinstance(data, dict):
        return {name: change(value) for name, value in data.items()}
    return [change(each) for each in data] if isinstance(data, list) else data
