"""Whatever strangers wrote into a database, no command passes it on to the terminal as it is.

A database is filled with a word in every name and text. The word is then replaced by characters that steer a terminal:
as if other programs had written the rows. Every command that prints is run on it.
"""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import sys
import unicodedata
import warnings
from pathlib import Path
from typing import Any

import pytest

import mainspring.cli
from mainspring import JobContext, Mainspring, every
from mainspring.cli.root import COMMANDS, run_command
from mainspring.cli.terminal import json_text, show_traceback
from mainspring.model.store.messages import ClaimRequest
from tests.receiver import answers, receiving
from tests.support import ended, until

pytestmark = pytest.mark.req("SEC-2")

WORD = "strangersword"
STEERING = "\x9b2J\x85\u202e\u2066\u200f\x7f\u2028"
"""Valid inside JSON as they are, so that they can take the place of the word at any depth."""
FORGED = "forged"
TEXT = f"{WORD} \x1b]0;x\x07\x1b[2J\r\n{FORGED}"
WITHOUT_OUTPUT = {"init", "dev", "run", "worker", "exec", "mcp", "completion", "grafana"}
"""Commands that print nothing of a database; `exec` and `dev` run code of the reader."""


CHANGE = (["remove"], ["revoke"], ["cancel"], ["trigger"])
NO_COMMAND = "no\x1b[2Jcommand"


async def fill(url: str, called: str) -> dict[str, str]:
    """Do whatever leaves texts somewhere, with things that are called so; returns the ids."""
    app = Mainspring(url, roles=["worker"], private_urls=True, release=WORD, fold_interval=0.1)
    name = f"{called}.job"

    @app.job(name, queue=called, description=TEXT, tags=[WORD], max_attempts=1)
    async def job(ctx: JobContext, payload: str) -> Any:
        ctx.logger.warning("%s", TEXT)
        ctx.progress(1, 2, TEXT)
        ctx.metadata["found"] = TEXT
        if payload == "fail":
            raise ValueError(TEXT)
        return {TEXT: TEXT}

    app.job(f"{called}.windowed", trigger=every(days=1), window="previous_day", description=TEXT)(lambda: None)
    app.calendars.declare(f"{called}-days", ["12-25"])
    async with receiving() as receiver, app:
        receiver.behaviours["/hook"] = answers(500, body=TEXT.encode())
        await app.webhooks.create(receiver.url("/hook"), id=f"{called}-hook", description=TEXT)
        failed = await ended(app, await app.enqueue(name, {"payload": "fail"}, tenant=WORD))
        good = await ended(app, await app.enqueue(name, {"payload": TEXT}))
        deliveries = await until(lambda: app.webhooks.deliveries(f"{called}-hook"))
        await until(lambda: receiver.messages)
        group = (await until(app.errors.all))[0].id
        await app.errors.mute(group, note=TEXT, by=TEXT)
    await app.open()
    await app.pause(name, note=TEXT, by=TEXT)
    waiting = await app.enqueue(name, {"payload": TEXT}, tenant=WORD)
    gone = await app.enqueue(name, {"payload": TEXT})
    assert waiting is not None
    assert gone is not None
    await app.cancel_execution(gone, reason=TEXT, by=TEXT)
    await app.queues.pause(called, note=TEXT, by=TEXT)
    await app.templates.create(f"{called}-template", name, description=TEXT, by=TEXT)
    await app.calendars.set(f"{called}-set", ["12-25"], by=TEXT)
    await app.hooks.set(f"{called}-in", name, by=TEXT)
    await app.tokens.create(called, "viewer", by=TEXT)
    backfill = await app.backfills.start(f"{called}.windowed", "2026-01-01", "2026-01-03", by=TEXT)
    bulk = await app.bulk.start("pause", "jobs", [f"{called}.windowed"], by=TEXT)
    store = (await app._runtime.engine()).store
    await store.exchange((), ClaimRequest(owner=WORD, handlers=frozenset({name}), queues=None, limit=1, lease=600.0))
    await app.close()
    return {"failed": failed.id, "good": good.id, "waiting": waiting.id, "gone": gone.id, "group": group,
            "backfill": backfill.id, "bulk": bulk.id, "delivery": deliveries[0].id}  # fmt: skip


def tampered(path: Path) -> int:
    """Replace the word in every text of the database; returns in how many columns it stood."""
    found = 0
    with sqlite3.connect(path) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            for _, column, kind, *_ in connection.execute(f"PRAGMA table_info({table})").fetchall():
                if kind == "TEXT":
                    change = f"UPDATE {table} SET {column} = replace({column}, ?, ?) WHERE instr({column}, ?)"
                    found += connection.execute(change, (WORD, WORD + STEERING, WORD)).rowcount > 0
    connection.close()
    return found


def lines(ids: dict[str, str], word: str) -> list[list[str]]:
    """What is typed: each command that prints something of the database."""
    made = [
        *(["jobs", each, f"{word}.job"] for each in ("show", "why")),
        *(["executions", "show", ids[each]] for each in ("failed", "good", "waiting", "gone", "delivery")),
        *(["executions", "logs", ids[each]] for each in ("failed", "good", "delivery")),
        *(["executions", "logs", ids[each], "--follow"] for each in ("failed", "good")),
        *([each, "list"] for each in ("jobs", "executions", "errors", "backfill", "bulk", "workers")),
        *(
            [each, "list"]
            for each in ("queues", "handlers", "locks", "calendars", "templates", "webhooks", "hooks", "token")
        ),
        *([each] for each in ("tenants", "changes", "audit", "doctor", "config show", "db status", "watch --once")),
        *([each] for each in ("problems", "top --once", "simulate --duration 1d")),
        ["errors", "show", ids["group"]],
        ["backfill", "show", ids["backfill"]],
        ["bulk", "show", ids["bulk"]],
        ["bulk", "items", ids["bulk"]],
        ["queues", "show", word],
        ["calendars", "show", f"{word}-set"],
        ["templates", "show", f"{word}-template"],
        ["webhooks", "show", f"{word}-hook"],
        ["webhooks", "deliveries", f"{word}-hook"],
        ["hooks", "show", f"{word}-in"],
        ["windows", f"{word}.windowed"],
        ["executions", "list", "--status", "failed"],
        ["jobs", "show", f"{word}.nothing"],
        ["executions", "cancel", ids["waiting"]],
        ["alerts", "export"],
        ["jobs", "resume", f"{word}.job"],
        ["jobs", "trigger", f"{word}.job", "--param", "payload=1"],
        ["token", "revoke", word],
        ["queues", "resume", word],
        ["hooks", "remove", f"{word}-in"],
        ["cron", word],
        ["import", word, word],
        [NO_COMMAND],
    ]
    return [[*each[0].split(" "), *each[1:]] for each in made]


def steers(text: str) -> set[str]:
    return {char for char in text if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp", "Cs")} - {"\n"}


@pytest.mark.parametrize("called", [WORD, "plain"])
def test_no_command_prints_what_steers_a_terminal(
    called: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With names of strangers, and with names that commands accept as arguments."""
    path = tmp_path / "hostile.db"
    monkeypatch.setenv("COLUMNS", "250")
    ids = asyncio.run(fill(f"sqlite:///{path}", called))
    assert tampered(path) > 10
    monkeypatch.setenv("MAINSPRING_DATABASE_URL", f"sqlite:///{path}")
    capsys.readouterr()
    typed = lines(ids, called.replace(WORD, WORD + STEERING))
    shown = set()
    for line in typed:
        for form in ["json"] * (line[1:2] not in CHANGE and line[0] not in ("alerts", NO_COMMAND)) + ["table"]:
            code = run_command([*line, "-o", "json"] if form == "json" else line)
            out, err = capsys.readouterr()
            assert code in (0, 1, 2), line
            assert not steers(out + err), (line, ascii(out + err))
            assert f"\n{FORGED}" not in out + err, (line, out + err)
            if form == "json" and code == 0:
                for document in out.splitlines() if "--follow" in line else [out]:
                    json.loads(document)
            if WORD in out:
                shown.add((form, *line[:2]))
    assert {line[0] for line in typed} - {NO_COMMAND} == COMMANDS.keys() - WITHOUT_OUTPUT
    assert len(shown) > 40, sorted(shown)


def test_nothing_else_prints() -> None:
    """Only `terminal` and `screens.output` of the command line know how to write to the terminal."""
    folder = Path(mainspring.cli.__file__).parent
    other = re.compile(
        r"\bclick\.(?:echo|secho|confirm|prompt)\(|(?<![.\w])print\(|\bConsole\(|\bstd(?:out|err)\.write\("
    )
    found = {
        file.relative_to(folder).as_posix(): matches
        for file in folder.rglob("*.py")
        if (matches := other.findall(file.read_text(encoding="utf-8")))
    }
    assert found.keys() <= {"terminal.py", "screens/output.py"}, found


@pytest.mark.parametrize("data", ["\x1b\x7f\x9b\u202e\u2028\U000e0001", {"é\r": ["\ud800", "ü", "日本"]}])
def test_json_is_escaped_by_its_own_rules(data: Any) -> None:
    text = json_text(data)
    assert json.loads(text) == data
    assert text.isprintable()


def test_a_warning_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    assert run_command(["--version"]) == 0
    capsys.readouterr()
    warnings.showwarning(UserWarning(TEXT), UserWarning, "orders.py", 1)
    err = capsys.readouterr().err
    assert err.startswith(f"warning: {WORD} ")
    assert err.rstrip("\n").isprintable()


def test_tracebacks_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise ValueError(TEXT + STEERING)
    except ValueError as error:
        show_traceback(ValueError, error, error.__traceback__)
    err = capsys.readouterr().err
    assert err.startswith("Traceback (most recent call last):\n")
    assert not steers(err)
