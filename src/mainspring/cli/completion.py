"""Names for shell completion: of jobs, queues and the like from the database, of applications from Python files.

A reading is bounded by `PATIENCE` and silent on every error: whoever presses tab wants names or nothing. The database
is only read; a file that does not exist is not created, and a schema that is out of date is left alone.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

import click
from click.shell_completion import CompletionItem

from ..app.mainspring import Mainspring

PATIENCE = 0.5
"""Seconds for connecting and reading."""
MOST = 200
MOST_FILES = 200
LARGEST_FILE = 200_000
_APPLICATION = re.compile(r"^(\w+)\s*(?::[^=\n]+)?=\s*(?:mainspring\.)?Mainspring\(", re.MULTILINE)

Kind: TypeAlias = Literal[
    "job", "queue", "handler", "error_group", "template", "calendar", "tenant", "worker", "execution", "bulk",
    "backfill", "webhook", "hook", "token", "lock",
]  # fmt: skip
Named: TypeAlias = Iterable[tuple[str, str]]
"""Names, each with some words about it, which zsh and fish show."""
Complete: TypeAlias = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def names_of(kind: Kind, *, comma_separated: bool = False) -> Complete:
    """The `shell_complete` of an argument or option that takes such a name."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        before, comma, begun = incomplete.rpartition(",") if comma_separated else ("", "", incomplete)
        given = context.params.get(parameter.name or "")
        used = {*given} if isinstance(given, tuple) else set()
        found = [(name, words) for name, words in _read(context, kind, begun) if name.startswith(begun)]
        return [CompletionItem(f"{before}{comma}{name}", help=words) for name, words in found if name not in used]

    return complete


def applications(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """`MODULE:APP` of the Python files in this folder and in the packages below it."""
    found = sorted(each for file in _python_files() for each in _applications_in(file))
    return [CompletionItem(each) for each in found if each.startswith(incomplete)]


def _python_files() -> Iterator[Path]:
    here = Path()
    return islice((file for pattern in ("*.py", "*/*.py", "src/*/*.py") for file in here.glob(pattern)), MOST_FILES)


def _applications_in(file: Path) -> list[str]:
    try:
        if file.stat().st_size > LARGEST_FILE:
            return []
        names = _APPLICATION.findall(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    parts = file.with_suffix("").parts[1 if file.parts[0] == "src" else 0 :]
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return [f"{module}:{name}" for name in names]


# --- the database


def _read(context: click.Context, kind: Kind, begun: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    work = threading.Thread(target=_read_into, args=(found, context, kind, begun), daemon=True)
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):  # the application's code may print
        work.start()
        work.join(PATIENCE)
    return found if not work.is_alive() else []


def _read_into(found: list[tuple[str, str]], context: click.Context, kind: Kind, begun: str) -> None:
    from .session import ClientSession  # it has options that are completed here

    options = (context.params.get("app"), context.params.get("database_url"), "table")
    with suppress(BaseException):  # also SystemExit, of the application's code
        found += asyncio.run(_named(ClientSession(*options).read_only_app(), kind, begun))


async def _named(app: Mainspring, kind: Kind, begun: str) -> list[tuple[str, str]]:
    await app.open()
    try:
        return list(await _READERS[kind](app, begun))[:MOST]
    finally:
        await app.close()


async def _jobs(app: Mainspring, begun: str) -> Named:
    found = await app.jobs(limit=MOST, name=begun or None)
    return [(each.name, each.description_of_schedule) for each in found]


async def _queues(app: Mainspring, begun: str) -> Named:
    return [(each.name, f"{each.ready} ready, {each.running} running") for each in await app.queues.all()]


async def _handlers(app: Mainspring, begun: str) -> Named:
    return [(each.name, f"{each.ready} ready, {each.running} running") for each in await app.handlers.all()]


async def _error_groups(app: Mainspring, begun: str) -> Named:
    return [(each.id, f"{each.type}: {each.message}"[:60]) for each in await app.errors.all(limit=50)]


async def _templates(app: Mainspring, begun: str) -> Named:
    return [(each.name, f"handler {each.handler}") for each in await app.templates.all()]


async def _calendars(app: Mainspring, begun: str) -> Named:
    return [(each.name, "") for each in await app.calendars.all()]


async def _tenants(app: Mainspring, begun: str) -> Named:
    return [(each.tenant, "") for each in await app.tenants.busiest(limit=50)]


async def _workers(app: Mainspring, begun: str) -> Named:
    return [(each.id, f"{each.host}, pid {each.pid}") for each in await app.workers()]


async def _executions(app: Mainspring, begun: str) -> Named:
    return [(each.id, f"{each.job}, {each.state.value}") for each in await app.executions(limit=20)]


async def _bulk_actions(app: Mainspring, begun: str) -> Named:
    return [(each.id, f"{each.action} {each.target}, {each.state}") for each in await app.bulk.recent()]


async def _backfills(app: Mainspring, begun: str) -> Named:
    return [(each.id, f"{each.job}, {each.state}") for each in await app.backfills.recent()]


async def _webhooks(app: Mainspring, begun: str) -> Named:
    return [(each.id, each.description or "") for each in await app.webhooks.all()]


async def _hooks(app: Mainspring, begun: str) -> Named:
    return [(each.name, f"triggers {each.job}") for each in await app.hooks.all()]


async def _tokens(app: Mainspring, begun: str) -> Named:
    return [(each.name, each.role) for each in await app.tokens.all()]


async def _locks(app: Mainspring, begun: str) -> Named:
    return [(each.name, "") for each in (await app.locks.page(MOST)).items if each.kind == "lock"]


_READERS: dict[Kind, Callable[[Mainspring, str], Awaitable[Named]]] = {
    "job": _jobs,
    "queue": _queues,
    "handler": _handlers,
    "error_group": _error_groups,
    "template": _templates,
    "calendar": _calendars,
    "tenant": _tenants,
    "worker": _workers,
    "execution": _executions,
    "bulk": _bulk_actions,
    "backfill": _backfills,
    "webhook": _webhooks,
    "hook": _hooks,
    "token": _tokens,
    "lock": _locks,
}
