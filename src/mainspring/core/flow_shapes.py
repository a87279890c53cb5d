"""Templates, and what became of bulk commands, as plain data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .bulk import BulkItem, BulkResult
from .ping_secrets import masked
from .shapes import instant_text
from .templates import Template

_OWN = frozenset({"trigger", "tz", "params", "metadata", "description"})


def template_shape(template: Template, *, whole: bool = False) -> dict[str, Any]:
    """`whole` also tells the addresses that its jobs ping, which are for those who may change it."""
    fields, trigger = template.fields if whole else masked(template.fields), template.trigger
    return {
        "name": template.name,
        "handler": template.handler,
        "description": fields.get("description", ""),
        "schedule": None if trigger is None else trigger.expression(),
        "schedule_description": None if trigger is None else trigger.describe(),
        "timezone": fields.get("tz"),
        "params": fields.get("params", {}),
        "metadata": fields.get("metadata", {}),
        "options": {name: value for name, value in fields.items() if name not in _OWN},
        "version": template.version,
        "updated_by": template.by,
        "created_at": instant_text(template.created_at),
        "updated_at": instant_text(template.updated_at),
    }


def bulk_shape(result: BulkResult, item_shape: Callable[[BulkItem], dict[str, Any]] | None = None) -> dict[str, Any]:
    return {
        "command": result.command,
        "matched": len(result.items),
        "done": result.done,
        "refused": result.refused,
        "more": result.more,
        "next": result.next,
        "results": [(item_shape or _item_shape)(item) for item in result.items],
    }


def _item_shape(item: BulkItem) -> dict[str, Any]:
    return {
        "id": item.id,
        "done": item.done,
        "status": item.status,
        "execution_id": item.execution_id,
        "error": None if item.error is None else str(item.error),
    }
