"""What the commands say: in-process, on a SQLite file that an application filled, at the widths of real terminals."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring import Execution, Mainspring, Retry, every
from mainspring.cli import main
from mainspring.cli.start_report import OrphanWatch
from mainspring.model.store.messages import WorkerInfo
from tests.support import until

URL = "--database-url=sqlite:///shop.db"
APP = "--app=yard:app"

YARD = """
from typing import Literal
from mainspring import Mainspring

app = Mainspring("sqlite:///yard.db")

@app.job("remind")
async def remind(ctx, shift_id: str, note: str | None = None, times: int = 1, day: Literal["1", "2"] = "1") -> None: ...
"""


class Said:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Said]]:
    """Runs one command in this process; `columns` is the width of its terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("MAINSPRING_APP", "MAINSPRING_DATABASE_URL", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    handlers = logging.getLogger("mainspring").handlers[:]

    def run(*arguments: str, columns: int | None = None) -> Said:
        if columns:
            monkeypatch.setenv("COLUMNS", str(columns))
        capsys.readouterr()
        code = main(list(arguments))
        return Said(code, *capsys.readouterr())

    yield run
    logging.getLogger("mainspring").handlers[:] = handlers


def shop() -> Mainspring:
    """An application in the working folder, with one job of each kind that the screens tell apart."""
    app = Mainspring("sqlite:///shop.db")

    @app.job("report", cron="0 30 3 * * *", tz="Asia/Tokyo", window="yesterday", retry=Retry("patient"), timeout="10m")
    async def report(ctx: Any) -> None:
        """Counts the orders of the day before."""

    @app.job("import", trigger=every(seconds=4, delay=True), overlap="allow", overlap_limit=3, enabled=False)
    async def import_(ctx: Any) -> None:
        ctx.progress(6, 20, "row 6")
        await asyncio.Event().wait()

    @app.job("remind", queue="mail", max_attempts=1)
    async def remind(ctx: Any, shift_id: str) -> str:
        if shift_id == "none":
            raise ValueError("no such shift")
        return shift_id

    return app


def filled(work: Callable[[Mainspring], Any]) -> Any:
    async def run() -> Any:
        async with shop() as app:
            return await work(app)

    return asyncio.run(run())


def declared(*enqueued: tuple[str, dict[str, Any]]) -> list[Execution]:
    """The jobs, and executions of them that nobody runs."""

    async def run() -> list[Execution]:
        app = shop()
        await app.open()
        made = [await app.enqueue(name, params) for name, params in enqueued]
        await app.close()
        return [execution for execution in made if execution is not None]

    return asyncio.run(run())


# --- the database ---------------------------------------------------------------------------------------------


@pytest.mark.req("OPS-4")
@pytest.mark.parametrize("command", [["jobs", "list"], ["executions", "list"], ["workers"], ["locks", "list"]])
def test_a_look_makes_no_tables_in_a_file_of_somebody_else(cli: Callable[..., Said], command: list[str]) -> None:
    Path("empty.db").touch()
    with closing(sqlite3.connect("mine.db")) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER)")
        connection.commit()
    for name in ("mine.db", "empty.db"):
        before = Path(name).read_bytes()
        said = cli(*command, f"--database-url=sqlite:///{name}")
        remedy = "start an application on it first, or check the path"
        assert (said.code, said.err) == (2, f"error: {name} holds no Mainspring tables; {remedy}\n")
        assert Path(name).read_bytes() == before
    assert sorted(path.name for path in Path().iterdir()) == ["empty.db", "mine.db"]


def test_a_folder_is_no_database(cli: Callable[..., Said]) -> None:
    Path("folder").mkdir()
    said = cli("jobs", "list", "--database-url=sqlite:///folder")
    assert (said.code, said.err) == (
        2,
        "error: database_url: 'folder' is a directory; give the path of a file in it\n",
    )


# --- removing -------------------------------------------------------------------------------------------------


@pytest.mark.req("OPS-4")
def test_a_purge_without_a_terminal_needs_yes(cli: Callable[..., Said]) -> None:
    declared()
    refused = cli("jobs", "remove", "report", "--purge", URL)
    assert refused.code == 2
    assert "add --yes" in refused.err
    assert cli("jobs", "show", "report", URL).code == 0
    assert cli("jobs", "remove", "report", "--purge", "--yes", URL).code == 0


@pytest.mark.req("OPS-4")
def test_the_history_of_a_removed_job_is_found_and_a_misspelt_one_is_not(cli: Callable[..., Said]) -> None:
    (made,) = declared(("remind", {"shift_id": "1"}))
    assert cli("jobs", "remove", "remind", "--force", URL).code == 0
    listed = json.loads(cli("executions", "list", "--job", "remind", URL, "-o", "json").out)
    assert [execution["id"] for execution in listed] == [made.id]
    assert cli("executions", "list", "--job", "remind", "--status", "failed", URL).out == "No execution matches.\n"
    assert "did you mean 'report'?" in cli("executions", "list", "--job", "reprot", URL).err
    assert cli("executions", "show", made.id, URL).code == 0


@pytest.mark.req("OPS-4")
def test_a_job_that_a_running_process_declares_is_removed_with_a_warning(cli: Callable[..., Said]) -> None:
    async def remove(app: Mainspring) -> Said:
        return await asyncio.to_thread(cli, "jobs", "remove", "report", URL)

    said = filled(remove)
    assert said.code == 0
    assert said.err == (
        "warning: a running process declares it; it comes back at the next start; "
        "to stop it use jobs pause or jobs cancel\n"
    )


# --- waiting --------------------------------------------------------------------------------------------------


@pytest.mark.req("OPS-4")
def test_what_waits_says_what_for(cli: Callable[..., Said]) -> None:
    first, _ = declared(("remind", {"shift_id": "1"}), ("report", {}))
    shown = cli("executions", "show", first.id, URL)
    assert "waits for  no process is running" in " ".join(shown.out.split("\n")).replace("   ", "  ")
    assert (
        json.loads(cli("executions", "show", first.id, URL, "-o", "json").out)["waits_for"] == "no process is running"
    )


@pytest.mark.req("OPS-4")
def test_a_process_without_the_handler_or_the_queue_is_named(cli: Callable[..., Said]) -> None:
    first, second = declared(("remind", {"shift_id": "1"}), ("import", {}))

    async def look() -> list[str]:
        app = shop()
        await app.start(queues=["other"], exclude=["import"])
        said = [await asyncio.to_thread(cli, "executions", "show", run.id, URL) for run in (first, second)]
        await app.close()
        return [each.out for each in said]

    no_queue, no_handler = asyncio.run(look())
    assert "serves the queue 'mail'" in no_queue
    assert "has the handler 'import'" in no_handler


@pytest.mark.req("OPS-4")
def test_an_id_may_be_given_by_its_beginning_or_its_ending(cli: Callable[..., Said]) -> None:
    first, second = declared(("remind", {"shift_id": "1"}), ("remind", {"shift_id": "2"}))
    for part in (first.id[:24], first.id[-8:], f"…{first.id[-12:]}", first.id[-12:].upper()):
        assert json.loads(cli("executions", "show", part, URL, "-o", "json").out)["id"] == first.id
    both = cli("executions", "cancel", first.id[:8], URL)
    assert both.code == 2
    assert f"It fits {second.id} and {first.id}" in both.err
    assert "no execution with id 'deadbeef'" in cli("executions", "logs", "deadbeef", URL).err
    assert json.loads(cli("executions", "cancel", first.id[-12:], URL, "-o", "json").out)["status"] == "cancelled"


@pytest.mark.req("OPS-4")
def test_a_start_names_the_work_that_nobody_can_do(cli: Callable[..., Said], caplog: pytest.LogCaptureFixture) -> None:
    declared(("remind", {"shift_id": "1"}))

    async def start() -> None:
        other = Mainspring("sqlite:///shop.db")
        other.job("other")(lambda ctx: None)
        other.observe(OrphanWatch(other))
        async with other:
            await until(lambda: "job_orphaned" in caplog.text)

    asyncio.run(start())
    (line,) = [record.getMessage() for record in caplog.records if "job_orphaned" in record.getMessage()]
    assert line == "job_orphaned job=remind pending=1: no running process declares it, so no process runs them"


@pytest.mark.req("OPS-4", "WRK-4")
def test_a_process_silent_for_longer_than_its_lease_is_not_said_to_run(cli: Callable[..., Said]) -> None:
    declared()
    now = time.time_ns() // 1000
    with closing(sqlite3.connect("shop.db")) as connection:
        for name, lease in (("lost", 3.0), ("late", 30.0)):
            row = WorkerInfo(id=name, host="h", pid=1, version="1", lease=lease, seen=now - 20_000_000)
            values = (name, row.seen, msgspec.json.encode(row).decode())
            connection.execute("INSERT INTO mainspring_workers (id, seen, info) VALUES (?, ?, ?)", values)
        connection.commit()
    assert [worker["id"] for worker in json.loads(cli("workers", URL, "-o", "json").out)] == ["late"]


# --- parameters -----------------------------------------------------------------------------------------------


@pytest.fixture
def yard(cli: Callable[..., Said], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Said]:
    Path("yard.py").write_text(YARD)
    monkeypatch.delitem(sys.modules, "yard", raising=False)
    return cli


def params_of(said: Said) -> Any:
    assert said.code == 0, said.err
    return json.loads(said.out)["params"]


@pytest.mark.req("OPS-4", "ENQ-4")
def test_a_text_parameter_takes_the_text_as_it_is(yard: Callable[..., Said]) -> None:
    said = yard("jobs", "trigger", "remind", APP, "--param", "shift_id=42", "--param", "times=2", "-o", "json")
    assert (params_of(said), said.err) == ({"shift_id": "42", "times": 2}, "")
    pairs = ["--param", 'shift_id="42"', "--param", "note=null"]
    assert params_of(yard("jobs", "trigger", "remind", APP, *pairs, "-o", "json")) == {"shift_id": "42", "note": None}


@pytest.mark.req("OPS-4", "ENQ-4")
def test_a_number_that_is_refused_says_how_to_give_it_as_text(yard: Callable[..., Said]) -> None:
    said = yard("jobs", "trigger", "remind", APP, "--param", "shift_id=42", "--param", "day=1")
    assert said.code == 2
    assert "To give it as text: --param 'day=\"1\"'" in said.err
    assert len(said.err.splitlines()) == 1


@pytest.mark.req("OPS-4")
def test_without_the_code_it_is_said_that_parameters_are_not_checked(cli: Callable[..., Said]) -> None:
    declared()
    said = cli("jobs", "trigger", "remind", URL, "--param", "shift_id=42", "-o", "json")
    assert params_of(said) == {"shift_id": 42}
    assert said.err == "parameters are not checked here: give --app MODULE:APP to check them\n"
    assert cli("jobs", "trigger", "report", URL).err == ""


@pytest.mark.req("OPS-4", "EXE-1")
def test_refusals_name_the_option_that_was_typed_and_the_command_that_helps(cli: Callable[..., Said]) -> None:
    declared()
    assert cli("jobs", "pause", "report", URL, "--until", "soon").err.startswith("error: --until: 'soon' is not valid")
    window = cli("jobs", "trigger", "report", URL, "--window", "tomorrow", "2026-01-01").err
    assert window.startswith("error: --window BEGIN: 'tomorrow' is not valid; allowed: a time such as 2026-03-01")
    backwards = cli("jobs", "trigger", "report", URL, "--window", "2026-01-02", "2026-01-01").err
    assert backwards.startswith("error: --window END: '2026-01-01' is not valid; allowed: an instant after BEGIN")
    cli("jobs", "cancel", "report", URL)
    refused = cli("jobs", "trigger", "report", URL)
    assert refused.code == 1
    assert refused.err.endswith("; bring it back with: mainspring jobs reactivate report\n")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("yard.py:app", "Did you mean yard:app?"),
        ("./folder/yard.py:app", "Did you mean folder.yard:app?"),
        ("broken:app", "SyntaxError: '(' was never closed at"),
    ],
)
def test_a_target_that_is_a_file_or_does_not_parse_is_explained(
    yard: Callable[..., Said], target: str, words: str
) -> None:
    Path("broken.py").write_text("\n\nprint(\n")
    said = yard("run", target)
    assert (said.code, words in said.err) == (2, True), said.err
    assert "broken" not in target or " at broken.py:3" in said.err


# --- screens --------------------------------------------------------------------------------------------------


@pytest.mark.req("OPS-4", "API-12")
def test_a_job_is_shown_with_every_rule_it_lives_by(cli: Callable[..., Said]) -> None:
    declared()
    text = cli("jobs", "show", "report", URL).out
    for words in (
        "Counts the orders of the day before.",
        "Asia/Tokyo",
        "previous_day",
        "after 1m, then 2 times as long each time, at most 1h",
        "03:30:00 Asia/Tokyo",
        "one period, at most 1m",
        "the newest 100, and all of 30 days",
    ):
        assert words in text
    fields = dict(re.findall(r"^(\S+(?: \S+)?)  +(.*?) *$", text, re.MULTILINE))
    assert (fields["max attempts"], fields["timeout"], fields["overlap"]) == ("3", "10m", "skip")
    other = cli("jobs", "show", "import", URL).out
    assert "allow, at most 3 at once" in other
    assert "4 seconds after each run ends" in other
    assert "its schedule is switched off" in other
    policy = json.loads(cli("jobs", "show", "report", URL, "-o", "json").out)["policy"]
    assert (policy["tz"], policy["window"], policy["timeout"]) == ("Asia/Tokyo", "previous_day", 600.0)


async def progressed(app: Mainspring, run: Execution) -> bool:
    return (await app.get(run.id)).progress is not None


@pytest.mark.req("OPS-4", "EXE-6")
def test_progress_and_time_so_far_of_what_runs(cli: Callable[..., Said]) -> None:
    async def look(app: Mainspring) -> list[Said]:
        run = await app.trigger("import")
        await until(lambda: progressed(app, run))
        said = [await asyncio.to_thread(cli, "executions", "list", "--running", URL)]
        said.append(await asyncio.to_thread(cli, "executions", "show", run.id, URL))
        following = asyncio.create_task(asyncio.to_thread(cli, "executions", "logs", run.id, "--follow", URL))
        await app.cancel_execution(run.id)
        return [*said, await following]

    listed, shown, followed = filled(look)
    assert re.search(r"6/20 \(30%\)(, \S+/s, \S+ left)?: row 6\n", followed.err)
    assert followed.err.endswith("cancelled\n")
    assert re.search(r"6/20 \(30%\)(, \S+/s, \S+ left)?: row 6", listed.out)
    assert re.search(r"running +\S+ \([^)]+\) +\d+( ms|\.\d s)", listed.out)
    assert re.search(r"6/20 \(30%\)(, \S+/s, \S+ left)?: row 6", shown.out)
    assert "running for" in shown.out


@pytest.mark.req("OPS-4")
def test_a_narrow_terminal_shows_short_ids_and_says_what_it_hides(cli: Callable[..., Said]) -> None:
    async def work(app: Mainspring) -> Execution:
        return await app.wait(await app.trigger("remind", {"shift_id": "none"}), timeout=30)

    failed = filled(work)
    narrow = cli("executions", "list", URL, columns=80)
    head, row = narrow.out.splitlines()
    assert max(map(len, (head, row))) <= 80
    assert re.sub(r" \(.*?\)", "", head).split()[:7] == ["ID", "JOB", "STATUS", "STARTED", "TOOK", "ATTEMPT", "REASON"]
    assert row.startswith(f"…{failed.id[-12:]}  remind")
    assert "ValueError" in row
    assert "columns hidden; widen the terminal or use -o json)" in cli("executions", "list", URL, columns=50).err
    assert failed.id in cli("executions", "list", URL, columns=140).out
    assert "traceback of attempt 1" in cli("executions", "show", failed.id, URL).out


@pytest.mark.req("OPS-4")
def test_what_is_long_is_cut_and_where_all_of_it_is_is_said(cli: Callable[..., Said]) -> None:
    (made,) = declared(("remind", {"shift_id": "x" * 5_000}))
    text = cli("executions", "show", made.id, URL, columns=80).out
    assert "... (5,016 characters; all of it with -o json)" in " ".join(text.split())
    assert len(text.splitlines()) < 25


@pytest.mark.req("OPS-4")
def test_footers_stay_out_of_a_pipe(cli: Callable[..., Said]) -> None:
    declared()
    said = cli("jobs", "list", URL)
    assert len(said.out.splitlines()) == 4
    assert "No process is running, so nothing runs" in said.err


@pytest.mark.req("TIM-2")
def test_runs_of_the_past_are_not_said_to_come(cli: Callable[..., Said]) -> None:
    assert " ago" in cli("cron", "explain", "@hourly", "--after", "2020-01-01", "--count", "1").out
