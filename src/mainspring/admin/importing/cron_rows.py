"""Rows of a scheduler that knows cron: from a CSV file, a JSON file, or an SQL query against its database."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from typing import Any

from ...core.rules.importing.rows import ImportRow
from ...model.errors import InvalidValue

COLUMNS = {
    "name": ("name", "job_name"),
    "schedule": ("schedule_time", "schedule", "cron", "cron_expression"),
    "enabled": ("enabled", "is_enabled", "active"),
    "params": ("parameters", "params"),
    "handler": ("handler",),
    "tz": ("timezone", "tz"),
}
"""What a row may say, and the names of the columns that say it; the first is the usual one."""
_TRUE, _FALSE = frozenset({"true", "t", "yes", "y", "on", "1"}), frozenset({"false", "f", "no", "n", "off", "0"})


def rows_of_csv(text: str) -> list[dict[str, Any]]:
    """The first line names the columns."""
    return list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"))))


def rows_of_json(text: str) -> list[dict[str, Any]]:
    """A list of objects, or one object per line."""
    try:
        found = json.loads(text)
    except ValueError:
        try:
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError as error:
            raise InvalidValue("rows", text[:60], "JSON: a list of objects, or one per line", str(error)) from None
    found = [found] if isinstance(found, dict) else found
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise InvalidValue("rows", text[:60], "JSON: a list of objects, or one per line")
    return found


def import_rows(rows: Iterable[Mapping[str, Any]], handler: str | None, tz: str | None) -> list[ImportRow]:
    """The rows as imports take them; one that cannot be read says why."""
    return [_row(f"row {number}", row, handler, tz) for number, row in enumerate(rows, 1)]


def _row(source: str, row: Mapping[str, Any], handler: str | None, tz: str | None) -> ImportRow:
    given = {field: _first(row, names) for field, names in COLUMNS.items()}
    name, schedule = str(given["name"] or ""), str(given["schedule"] or "")
    try:
        for field, text in (("name", name), ("schedule", schedule)):
            if not text:
                raise InvalidValue(COLUMNS[field][0], given[field], "text", f"The columns are {', '.join(row)}")
        return ImportRow(
            source=source,
            name=name,
            schedule=schedule,
            handler=given["handler"],
            usual_handler=handler,
            params=_params(given["params"]),
            enabled=_switch(given["enabled"]),
            tz=given["tz"] or tz,
        )
    except InvalidValue as error:
        return ImportRow(source=source, name=name or "-", schedule=schedule, reason=str(error))


def _first(row: Mapping[str, Any], names: Iterable[str]) -> Any:
    folded = {str(name).strip().lower(): value for name, value in row.items()}
    return next((folded[name] for name in names if folded.get(name) not in (None, "")), None)


def _params(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    try:
        found = json.loads(value) if isinstance(value, str | bytes) else value
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidValue("parameters", value, "a JSON object")
    return found


def _switch(value: Any) -> bool:
    if value is None or isinstance(value, bool):
        return value is not False
    word = str(value).strip().lower()
    if word not in _TRUE | _FALSE:
        raise InvalidValue("enabled", value, "true or false, yes or no, 1 or 0")
    return word in _TRUE
