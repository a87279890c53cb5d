"""Writes the tables in the documentation that follow from the code: `python scripts/doc_tables.py`.

Settings go to docs/configuration.md, job options to docs/guide.md, filters to docs/filters.md, events to
docs/webhooks.md, tools for assistants to docs/mcp.md, checks of the doctor to docs/doctor.md. A test compares them with
the code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from mainspring import Mainspring
from mainspring.assistants.operations import read_operations
from mainspring.config.settings import PREFIX, SETTINGS, Settings
from mainspring.core.declaring.options import OPTIONS
from mainspring.core.doctor.checks import CHECKS
from mainspring.core.doctor.examination import AREAS
from mainspring.core.filters import executions, jobs
from mainspring.core.filters.fields import Table
from mainspring.core.webhooks.events import EVENTS

DOCS = Path(__file__).parent.parent / "docs"


def settings_table() -> Iterator[str]:
    defaults = Settings()
    yield "| setting | default | environment | meaning |\n|---|---|---|---|\n"
    for name, setting in SETTINGS.items():
        default = shown(getattr(defaults, name))
        yield f"| `{name}` | `{default}` | `{PREFIX}{name.upper()}` | {setting.meaning} |\n"


def options_table() -> Iterator[str]:
    yield "| option | default | meaning |\n|---|---|---|\n"
    for option in OPTIONS.values():
        yield f"| `{option.name}` | {option.default_text} | {option.meaning}{option.see} |\n"


def events_table() -> Iterator[str]:
    yield "| event | when |\n|---|---|\n"
    for name, meaning in EVENTS.items():
        yield f"| `{name}` | {meaning} |\n"


def tools_table() -> Iterator[str]:
    """The tools that assistants are offered by default."""
    yield "| tool | needs | what it does |\n|---|---|---|\n"
    tools = [tool for tool in read_operations(Mainspring("memory://").asgi().openapi()) if tool.is_default]
    for tool in sorted(tools, key=lambda each: each.role.rank):
        yield f"| `{tool.name}` | {tool.role} | {tool.description} |\n"


def checks_table() -> Iterator[str]:
    yield "| check | area | severity | looks at | remedy |\n|---|---|---|---|---|\n"
    for check in sorted(CHECKS, key=lambda check: list(AREAS).index(check.area)):
        yield f"| `{check.id}` | {check.area} | {check.severity} | {check.looks_at} | {check.remedy} |\n"


def filters_table(table: Table) -> Iterator[str]:
    yield "| filter | value | meaning |\n|---|---|---|\n"
    for field in table.values():
        several = ", may be repeated" if field.several else ""
        value = "one of " + ", ".join(f"`{each}`" for each in field.choices) if field.choices else VALUES[field.kind]
        value = "true" if field.only_true else value
        yield f"| `{field.name}` | {value}{several} | {field.meaning} |\n"


VALUES = {
    "name": "a name",
    "text": "text",
    "pair": "`key=value`",
    "switch": "true or false",
    "duration": 'a duration such as `"30s"`',
    "instant": 'a time, or `"2h"` for two hours ago',
}


def shown(value: object) -> str:
    """A value as one would write it in the configuration file."""
    if isinstance(value, tuple):
        return ",".join(value) or "none"
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() else f"{value:g}"
    return {None: "none", True: "true", False: "false"}.get(value, str(value)) or "none"  # type: ignore[call-overload]


TABLES: dict[str, tuple[Path, Callable[[], Iterator[str]]]] = {
    "settings": (DOCS / "configuration.md", settings_table),
    "options": (DOCS / "guide.md", options_table),
    "execution filters": (DOCS / "filters.md", lambda: filters_table(executions.FIELDS)),
    "job filters": (DOCS / "filters.md", lambda: filters_table(jobs.FIELDS)),
    "checks": (DOCS / "doctor.md", checks_table),
    "events": (DOCS / "webhooks.md", events_table),
    "tools": (DOCS / "mcp.md", tools_table),
}


def rendered(name: str) -> str:
    """The page with a fresh table in the place of the old one."""
    page, table = TABLES[name]
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    return re.sub(f"(?s){begin}.*{end}", lambda _: begin + "".join(table()) + end, page.read_text())


if __name__ == "__main__":
    for name, (page, _) in TABLES.items():
        page.write_text(rendered(name))
