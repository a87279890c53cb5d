"""The command line as operators use it: real processes, a real SQLite file."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.command_line import DEADLINE, CommandLine

URL = "--database-url=sqlite:///shop.db"
APP = "--app=shop:app"


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[CommandLine]:
    command_line = CommandLine(tmp_path)
    yield command_line
    command_line.close()


@pytest.fixture
def served(cli: CommandLine) -> CommandLine:
    cli.serve()
    return cli


def test_version_and_help(cli: CommandLine) -> None:
    assert cli.text("--version").startswith("mainspring ")
    help_text = cli.text("--help")
    assert "Exit codes: 0 done; 1" in help_text
    assert [
        name for name in ("run", "worker", "jobs", "executions", "workers", "locks", "cron") if name not in help_text
    ] == []
    assert "Usage" in cli("jobs").stderr + cli("jobs").stdout


@pytest.mark.req("OPS-4")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["job", "list"], "no command 'job'; did you mean 'jobs'?"),
        (["jobs", "lst", APP], "did you mean 'list'?"),
        (["jobs", "disable", "greet", APP], "jobs pause NAME"),
        (["jobs", "list", "--colour"], "there is no option --colour; known are --after, --app"),
        (["run"], "Missing argument 'MODULE:APP'"),
        (["run", "shop"], "'shop' is not valid; allowed: a module, a colon and a name. Did you mean shop:app?"),
        (["run", "shpo:app"], "no module 'shpo'"),
        (["run", "shop:ap"], "Did you mean 'app'?"),
        (["run", "shop:number"], "'number' is of type int"),
        (["run", "bad:app"], "ZeroDivisionError: division by zero at"),
        (["run", "twice:app"], "is registered twice"),
        (["run", "shop:app", "--concurrency", "0"], "--concurrency: 0 is not valid; allowed: a whole number from 1"),
        (["run", "shop:app", "--concurrency", "many"], "a whole number from 1 to 1000"),
        (["run", "shop:app", "--roles", "wroker"], "--roles: 'wroker' is not valid"),
        (["run", "shop:app", "--stop-timeout", "soon"], "--stop-timeout: 'soon' is not valid"),
        (["run", "shop:app", "--processes", "0"], "--processes"),
        (["jobs", "show", "gret", APP], "no job named 'gret'; did you mean 'greet'?"),
        (["jobs", "trigger", "greet", APP], "name"),
        (["jobs", "trigger", "greet", APP, "--params", "{name}"], "--params"),
        (["jobs", "trigger", "greet", APP, "--params", "[1]"], "is not an object"),
        (["jobs", "trigger", "greet", APP, "--param", "name"], "'name' is not key=value"),
        (["jobs", "trigger", "greet", APP, "--param", "name=ada", "--param", "times=x"], "times"),
        (["jobs", "trigger", "report", APP, "--window", "tomorrow", "2026-01-01"], "'tomorrow' is not valid"),
        (["jobs", "trigger", "report", APP, "--window", "2026-01-02", "2026-01-01"], "window"),
        (["jobs", "pause", "report", APP, "--for", "1h", "--until", "2030-01-01T00:00Z"], "exclude each other"),
        (["jobs", "pause", "report", APP, "--until", "2020-01-01"], "--until: '2020-01-01' is not valid; allowed: an"),
        (["jobs", "pause", "report", APP, "--until", "0001-01-01"], "--until: '0001-01-01' is not valid; allowed: an"),
        (["jobs", "trigger", "report", APP, "--window", "2026-01-01", "9999-12-31"], "to the year 4999"),
        (["windows", "report", APP, "--from", "0001-01-01"], "--from: '0001-01-01' is not valid; allowed: an instant"),
        (["cron", "explain", "@hourly", "--after", "9999-12-31"], "--after: '9999-12-31' is not valid"),
        (["executions", "show", "nope", APP], "no execution with id 'nope'"),
        (["executions", "retry", "nope", APP], "no execution with id 'nope'"),
        (["executions", "list", APP, "--job", "gret"], "did you mean 'greet'?"),
        (["executions", "list", APP, "--status", "done"], "'done'"),
        (["executions", "list", APP, "--limit", "0"], "--limit"),
        (["locks", "release", "nope", APP], "no lock named 'nope'"),
        (["jobs", "list", "--database-url", "mysql://ada:secret@localhost/x"], "--database-url"),
        (["jobs", "list", "--database-url", "sqlite:///none.db"], "there is no file 'none.db'"),
        (["jobs", "list", "--database-url", "sqlite:///shop.py"], "not an SQLite database"),
        (["jobs", "list", "--database-url", "postgresql://ada:secret@localhost/x"], "postgresql"),
        (["jobs", "list", "--database-url", "memory://"], "lives inside one process only"),
        (["cron", "explain", "61 * * * *"], "61"),
        (["cron", "explain", "@hourly", "--tz", "Europe/Istambul"], "Did you mean 'Europe/Istanbul'?"),
    ],
)
def test_bad_input_gives_one_line_and_exit_code_2(cli: CommandLine, arguments: list[str], words: str) -> None:
    (cli.folder / "bad.py").write_text("1 / 0\n")
    (cli.folder / "twice.py").write_text("from shop import app\n@app.job('greet')\nasync def other(ctx): ...\n")
    done = cli(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1
    assert "secret" not in done.stderr


@pytest.mark.req("OPS-2")
def test_an_unknown_variable_is_named_with_a_suggestion(cli: CommandLine) -> None:
    done = cli("jobs", "list", APP, MAINSPRING_CONCURENCY="3")
    assert done.returncode == 2
    assert (
        done.stderr
        == "error: environment variable MAINSPRING_CONCURENCY is not a setting; did you mean MAINSPRING_CONCURRENCY?\n"
    )


@pytest.mark.req("OPS-4", "EXE-1")
def test_a_refused_command_names_both_states_and_exits_with_1(cli: CommandLine) -> None:
    done = cli("jobs", "resume", "report", APP)
    assert done.returncode == 1
    assert done.stderr == "error: cannot resume job 'report': it is scheduled; resume is possible when paused\n"


@pytest.mark.req("OPS-4", "API-12")
def test_jobs_are_listed_for_people_and_programs(cli: CommandLine) -> None:
    jobs = {job["name"]: job for job in cli.json("jobs", "list", APP)}
    assert sorted(jobs) == ["broken", "greet", "report", "slow"]
    assert jobs["report"]["schedule"] == "0 30 3 * * *"
    assert jobs["report"]["status"] == "scheduled"
    assert jobs["report"]["next_run_at"].endswith("00:30:00Z")
    assert jobs["greet"]["status"] == "pending"
    table = cli.text("jobs", "list", APP)
    assert "report" in table
    assert "03:30" in table
    assert [job["name"] for job in cli.json("jobs", "list", URL, "--status", "scheduled")] == ["report"]
    assert cli.text("jobs", "list", URL, "--queue", "other") == "No job matches.\n"


def test_an_empty_database_says_so_helpfully(cli: CommandLine) -> None:
    (cli.folder / "empty.py").write_text("from mainspring import Mainspring\napp = Mainspring('sqlite:///empty.db')\n")
    assert cli.json("jobs", "list", "--app=empty:app") == []
    assert cli.text("jobs", "list", "--database-url=sqlite:///empty.db").startswith("No jobs yet")
    assert cli.text("executions", "list", "--database-url=sqlite:///empty.db") == "No execution matches.\n"
    assert "mainspring run MODULE:APP" in cli.text("workers", "--database-url=sqlite:///empty.db")
    assert cli.text("locks", "list", "--database-url=sqlite:///empty.db") == "No lock is held.\n"


@pytest.mark.req("OPS-4", "API-12", "EXE-6", "EXE-11")
def test_a_triggered_job_runs_and_shows_result_counters_and_log(served: CommandLine) -> None:
    done = served.json("jobs", "trigger", "greet", APP, "--params", '{"name": "ada"}', "--param", "times=2", "--wait")
    assert (done["status"], done["result"], done["trigger"]) == ("completed", "adaada", "manual")
    assert (done["counters"], done["greeted"]) == ({"greeted": 2}, 2)
    shown = served.text("executions", "show", done["id"], URL)
    assert "completed" in shown
    assert "adaada" in shown
    (line,) = served.json("executions", "logs", done["id"], URL)
    assert (line["level"], line["message"]) == ("INFO", "hello ada")
    assert "hello ada" in served.text("executions", "logs", done["id"], URL, "--follow")
    follow = ("executions", "logs", done["id"], URL, "-f", "-o", "json")
    events = [json.loads(text) for text in served.text(*follow).splitlines()]
    assert [(each["event"], each["data"].get("message")) for each in events] == [("log", "hello ada"), ("end", None)]
    assert events[0]["data"]["logger"] == "mainspring.job"
    assert served.json("executions", "logs", done["id"], URL, "--level", "error") == []
    assert served.json("executions", "logs", done["id"], URL, "--tail", "0") == []
    [last, _] = served.text(*follow, "-n", "1", "--level", "info").splitlines()
    assert json.loads(last) == events[0]


@pytest.mark.req("OPS-4", "EXE-5")
def test_a_failure_shows_its_traceback_and_can_be_retried(served: CommandLine) -> None:
    failed = served.json("jobs", "trigger", "broken", URL, "--wait", code=1)
    assert (failed["status"], failed["error_message"]) == ("failed", "ValueError: no such order")
    assert "raise ValueError" in served.text("executions", "show", failed["id"], URL)
    again = served.json("executions", "retry", failed["id"], URL)
    assert (again["retry_of"], again["trigger"]) == (failed["id"], "retry")
    served.until(lambda: served.status(again["id"]) == "failed")
    assert served.json("jobs", "retry", "broken", URL)["retry_of"] == again["id"]
    listed = served.json("executions", "list", URL, "--job", "broken", "--status", "failed", "--limit", "1")
    assert len(listed) == 1
    assert served.json("jobs", "show", "broken", URL)["stats"]["failed_runs"] >= 2


@pytest.mark.req("OPS-4", "WIN-1", "WRK-9")
def test_what_runs_is_listed_refuses_a_second_run_and_can_be_cancelled(served: CommandLine) -> None:
    first = served.json("jobs", "trigger", "slow", URL)
    served.until(lambda: served.json("executions", "list", URL, "--running"))
    second = served("jobs", "trigger", "slow", URL)
    assert second.returncode == 1
    assert f"already running as execution {first['id']}" in second.stderr
    assert len(second.stderr.splitlines()) == 1
    served.until(lambda: served.json("executions", "show", first["id"], URL)["progress"])
    (worker,) = served.json("workers", URL)
    assert worker["roles"] == ["scheduler", "worker"]
    assert str(worker["pid"]) in served.text("workers", URL)
    served.json("executions", "cancel", first["id"], URL)
    served.until(lambda: served.status(first["id"]) == "cancelled")
    refused = served("executions", "cancel", first["id"], URL)
    assert (refused.returncode, "it is cancelled" in refused.stderr) == (1, True)


@pytest.mark.req("OPS-4", "EXE-1")
def test_a_job_is_paused_resumed_cancelled_reactivated_and_removed(cli: CommandLine) -> None:
    cli.json("jobs", "list", APP)
    paused = cli.json("jobs", "pause", "report", URL, "--note", "audit", "--for", "2h")
    assert (paused["status"], paused["is_paused"], paused["pause_note"]) == ("paused", True, "audit")
    assert paused["resume_at"] is not None
    assert "audit" in cli.text("jobs", "show", "report", URL)
    assert cli.json("jobs", "resume", "report", URL)["status"] == "scheduled"
    assert cli.json("jobs", "cancel", "report", URL, "--note", "replaced")["status"] == "cancelled"
    assert "replaced" in cli.text("audit", URL)
    assert cli.json("jobs", "reactivate", "report", URL)["status"] == "scheduled"
    assert cli.json("jobs", "remove", "report", URL, "--purge", "--yes") == {"removed": "report", "purged": True}
    assert cli("jobs", "show", "report", URL).returncode == 2


@pytest.mark.req("WIN-4", "TIM-9")
def test_a_window_given_by_hand_is_read_in_the_zone_of_the_job(cli: CommandLine) -> None:
    before = cli.json("jobs", "show", "report", APP)["next_run_at"]
    made = cli.json("jobs", "trigger", "report", URL, "--window", "2026-03-01", "2026-03-02")
    assert made["window"] == {"begin": "2026-03-01T00:00:00+03:00", "end": "2026-03-02T00:00:00+03:00"}
    assert made["status"] == "pending"
    assert cli.json("jobs", "show", "report", URL)["next_run_at"] == before


@pytest.mark.req("OPS-4")
@pytest.mark.parametrize("command", [["jobs", "trigger", "greet", "--wait"], ["executions", "logs", "--follow"]])
def test_waiting_in_vain_is_said_at_once_and_left_with_one_line(cli: CommandLine, command: list[str]) -> None:
    given = ["--param", "name=ada"] if "trigger" in command else [cli.json("jobs", "trigger", "report", APP)["id"]]
    process = cli.piped(*command, *given, APP)
    assert process.stderr is not None
    said = process.stderr.readline()
    assert said.endswith(" queued; no process is running, so it waits. Ctrl-C leaves it queued\n")
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=DEADLINE)
    id = said.split()[1]
    assert (process.returncode, output) == (130, "")
    assert errors == f"stopped waiting; the execution goes on: mainspring executions show {id}\n"
    assert cli.status(id) == "pending"


@pytest.mark.req("LCK-4")
def test_locks_are_listed_and_released(cli: CommandLine) -> None:
    (cli.folder / "lock.py").write_text(
        "import asyncio\nfrom shop import app\n"
        "async def main():\n    await app.try_lock('import', 600)\n    await app.close()\nasyncio.run(main())\n"
    )
    cli("run", "lock:nothing")  # importing the module takes the lock
    listed = cli.json("locks", "list", URL)
    assert ([lock["name"] for lock in listed["items"]], listed["next_cursor"]) == (["import"], None)
    assert "import" in cli.text("locks", "list", URL)
    assert cli.json("locks", "release", "import", URL) == {"lock": "import", "released": True}
    assert cli.json("locks", "list", URL) == {"items": [], "next_cursor": None}


@pytest.mark.req("TIM-2", "OPS-4")
def test_cron_is_explained_in_words_and_instants(cli: CommandLine) -> None:
    arguments = [
        "cron",
        "explain",
        "0 30 3 * * *",
        "--tz",
        "Europe/Istanbul",
        "--after",
        "2026-01-01T00:00",
        "--count",
        "2",
    ]
    explained = cli.json(*arguments)
    assert explained["description"] == "At 03:30 (Europe/Istanbul)"
    assert explained["next_runs"] == [
        {"local": "2026-01-01T03:30:00+03:00", "utc": "2026-01-01T00:30:00Z"},
        {"local": "2026-01-02T03:30:00+03:00", "utc": "2026-01-02T00:30:00Z"},
    ]
    text = cli(*arguments, TZ="Asia/Tokyo").stdout
    assert "At 03:30" in text
    assert "Thu 2026-01-01 03:30:00 +0300  2026-01-01 09:30:00 +0900" in text


def test_output_cannot_steer_the_terminal_and_survives_a_closed_pipe(cli: CommandLine) -> None:
    cli.json("jobs", "list", APP)
    made = cli.json("jobs", "trigger", "greet", APP, "--params", '{"name": "\\u001b[2J"}')
    assert "\x1b" not in cli.text("executions", "show", made["id"], URL)


def test_a_client_command_leaves_the_database_in_order(cli: CommandLine) -> None:
    cli.json("jobs", "list", APP)
    with sqlite3.connect(cli.folder / "shop.db") as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
    connection.close()
