"""How the fields of a log line read as text: `key=value`, quoted where a reader could be misled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_IDS = ("execution_id", "trace_id")
_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:/+-*@,")


def message(name: str, fields: Mapping[str, Any]) -> str:
    """One line of text: the event and its fields, each as `key=value`, ids last; what is not there is left out.

    >>> message("job_end", {"job": "crawl", "tenant": None, "error": "no route"})
    'job_end job=crawl error="no route"'
    """
    pairs = sorted(_flat(fields), key=lambda pair: pair[0] in _IDS)
    return " ".join([name, *(f"{key}={plain(value)}" for key, value in pairs if value not in (None, (), []))])


def _flat(fields: Mapping[str, Any]) -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for key, value in fields.items():
        pairs += value.items() if isinstance(value, Mapping) else [(key, value)]
    return pairs


def plain(value: Any) -> str:
    if isinstance(value, list | tuple):
        value = ",".join(map(str, value))
    text = f"{value:.10g}" if isinstance(value, float) else str(value)
    return text if text and _BARE.issuperset(text) else json.dumps(text, ensure_ascii=False)
