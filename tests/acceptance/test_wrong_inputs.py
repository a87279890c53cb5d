"""Wrong inputs as users type them: each gives one line that names the mistake and the fix, and changes nothing.

The rows say what the line must contain: the field or the value that is wrong, and the words of the remedy.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from math import nan
from pathlib import Path
from typing import Any

import pytest

from mainspring import Mainspring, MainspringError
from mainspring.cli import main

pytestmark = pytest.mark.req("OPS-4")

SHOP = """
from mainspring import Mainspring

app = Mainspring("sqlite:///shop.db")
number = 42


@app.job("greet")
async def greet(ctx, name: str, times: int = 1) -> str:
    return name


@app.job("report", cron="0 30 3 * * *", tz="Europe/Istanbul", window="yesterday")
async def report(ctx) -> None: ...


@app.job("bills", tenants=["acme", "beta"])
async def bills(ctx) -> None: ...


def needs(argument):
    return app


def fails():
    raise RuntimeError("no configuration")
"""
HEAD = "from mainspring import *\n\napp = Mainspring('sqlite:///shop.db')\nasync def work(ctx, name: str = 'x'): ...\n"
DECLARED = HEAD.count("\n") + 1
"""The line on which the rows of bad declarations have theirs."""

URL = "--database-url=sqlite:///shop.db"
LARGE = "x" * 300_000
Row = tuple[str, str, str]
"""A command, with | between arguments that have spaces; what is wrong; and the fix."""

COMMANDS: list[Row] = [
    ("job list", "'job'", "did you mean 'jobs'?"),
    ("jobs lst", "'lst'", "did you mean 'list'?"),
    ("jobs list --colour", "--colour", "known are --after"),
    ("jobs list --qeue web", "--qeue", "did you mean --queue?"),
    ("jobs list --sort nxt", "'nxt'", "'next_run_at'"),
    ("jobs list --sort nextrun", "'nextrun'", "did you mean 'next_run_at'?"),
    ("jobs list --status fail", "'fail'", "did you mean 'failed'?"),
    ("jobs list --limit 0", "--limit: 0", "from 1 to 1000"),
    ("jobs list --limit many", "--limit: 'many'", "a whole number from 1 to 1000"),
    ("jobs list --status faild", "'faild'", "'failed'"),
    ("jobs list -o yaml", "'yaml'", "'json'"),
    ("jobs list --after x --page 2", "--after and --page", "give one of them"),
    ("jobs show", "NAME", "jobs show --help"),
    (f"jobs show reprt {URL}", "'reprt'", "did you mean 'report'?"),
    (f"jobs show nothing-like-it {URL}", "'nothing-like-it'", "`mainspring jobs list`"),
    (f"jobs pause report --for 5x {URL}", "--for: '5x'", '"10m"'),
    (f"jobs pause report --until tomorow {URL}", "--until: 'tomorow'", "such as 2026-03-01T08:00Z"),
    (f"jobs pause report --until 2020-01-01T00:00Z {URL}", "--until: '2020-01-01T00:00Z'", "in the future"),
    (f"jobs resume report {URL}", "it is scheduled", "possible when paused"),
    (f"jobs edit report {URL}", "nothing to change", "give --schedule"),
    (f"jobs edit report --timeout 5m {URL}", "--timeout", "write --option timeout=VALUE"),
    (f"jobs edit report --option tmeout=5m {URL}", "'tmeout'", "Did you mean 'timeout'?"),
    (f"jobs edit report --option every=5s {URL}", "'every'", "Did you mean 'schedule'?"),
    (f"jobs edit report --option overlap=skp {URL}", "overlap: 'skp'", "'skip', 'queue'"),
    (f"jobs edit|report|--schedule|0 25 * * *|{URL}", "'0 25 * * *'", "0-23"),
    (f"jobs edit report --timezone Europe/Paros {URL}", "'Europe/Paros'", "Did you mean 'Europe/Paris'?"),
    (f"jobs skip report --at 2026-13-01 {URL}", "--at: '2026-13-01'", "a time with its offset"),
    (f"jobs retry report {URL}", "cannot retry job 'report'", "possible when"),
    (f"executions show ffffffff {URL}", "'ffffffff'", "`mainspring executions list`"),
    (f"executions show 0 {URL}", "'0'", "`mainspring executions list`"),
    (f"executions list --status faild {URL}", "'faild'", "'failed'"),
    (f"executions list --since yesterdy {URL}", "--since: 'yesterdy'", "a duration such as 2h"),
    (f"executions list --since 1h --until 2h {URL}", "--until: '2h'", "a time after since"),
    (f"executions list --longer-than 5x {URL}", "--longer-than: '5x'", '"10m"'),
    (f"executions list --search order {URL}", "--search: 'order'", "'order_id=4711'"),
    (f"executions list --job reprt {URL}", "'reprt'", "did you mean 'report'?"),
    (f"executions logs ffffffff --level loud {URL}", "'loud'", "'warning'"),
    (f"executions delete --status failed {URL}", "--yes", "--dry-run"),
    (f"backfill start report --from x {URL}", "--from: 'x'", "such as 2026-03-01"),
    (f"backfill start report --from 2026-02-01 --to 2026-01-01 {URL}", "--to: '2026-01-01'", "after --from"),
    (f"backfill start greet {URL}", "'greet'", 'window="yesterday"'),
    (f"backfill show 123 {URL}", "'123'", "`mainspring backfill list`"),
    (f"windows report --from 2026-02-01 --to 2026-01-01 {URL}", "--to", "after --from"),
    ("cron explain", "EXPRESSION", "cron explain --help"),
    ("cron explain|61 * * * *", "cron minute: '61'", "0-59"),
    ("cron explain|* * * *", "'* * * *'", "5 fields"),
    ("cron explain 0 3 1 1 1", "3 1 1 1", "put quotes around"),
    ("cron explain|0 0 31 2 *", "'31'", "a day that exists in month 2"),
    ("cron explain|@dayly", "'@dayly'", "Did you mean '@daily'?"),
    ("cron explain|0 3 * * *|--tz|Europe/Pari", "--tz: 'Europe/Pari'", "Did you mean 'Europe/Paris'?"),
    (f"queues limit mail --rate fast {URL}", "--rate: 'fast'", '"50/s"'),
    (f"queues limit mail {URL}", "--concurrency", "--off"),
    (f"token create ci --role boss {URL}", "'boss'", "'operator'"),
    (f"token revoke nope {URL}", "'nope'", "`mainspring token list`"),
    (f"calendars set holidays --date 2026-13-45 {URL}", "'2026-13-45'", '"2026-12-25"'),
    (f"webhooks create https://example.com --event execution.faild {URL}", "'execution.faild'", "'execution.failed'?"),
    (f"hooks set gh --job greet --style gitlab {URL}", "'gitlab'", "'github'"),
    (f"hooks set gh --job greet --secret-file no.txt {URL}", "--secret-file: 'no.txt' cannot be read", "No such file"),
    (f"calendars set holidays --file no.ics {URL}", "--file: 'no.ics' cannot be read", "No such file"),
    (f"locks release nope {URL}", "'nope'", "`mainspring locks list`"),
    (f"errors mute nope {URL}", "'nope'", "`mainspring errors list`"),
    (f"watch --interval x {URL}", "--interval: 'x'", '"10m"'),
    ("simulate shop:app --from 2026-02-01 --to 2026-01-01", "--to", "after --from"),
    ("run shop:app --port 99999", "--port: 99999", "from 0 to 65535"),
    ("run shop:app --roles wrker", "--roles: 'wrker'", "'worker'"),
    ("run shop:app --roles workers", "--roles: 'workers'", "Did you mean 'worker'?"),
    ("run shop:app --queues", "--queues needs a value", "write --queues VALUE"),
]

PARAMETERS: list[Row] = [
    ("jobs trigger greet --app shop:app", "params.name is missing", "takes (name: str"),
    ("jobs trigger greet --app shop:app --param nme=x", "'nme'", "did you mean 'name'?"),
    (
        "jobs trigger greet --app shop:app --param nme=3",
        "params has no parameter 'nme'; did you mean 'name'?",
        "takes (",
    ),
    ("exec greet --app shop:app --param nme=3", "params has no parameter 'nme'; did you mean 'name'?", "takes ("),
    ("jobs trigger greet --app shop:app --param name", "'name'", "key=value"),
    ("jobs trigger greet --app shop:app --param name=a --param times=two", "params.times: 'two'", "allowed: int"),
    (
        "jobs trigger greet --app shop:app --param name ada",
        "argument ada",
        "--param takes KEY=VALUE: write --param name=ada",
    ),
    ("jobs trigger greet --app shop:app --params [1]", "'[1]'", '{"url": "x"}'),
    ('jobs trigger|greet|--app|shop:app|--params|{"name": NaN}', "NaN", "is not JSON"),
    (
        f"jobs trigger greet --app shop:app --param name={'x' * 300_000}",
        "params: more than",
        "Store large data elsewhere",
    ),
    ("jobs trigger report --app shop:app --window 2026-01-02 2026-01-01", "--window END: '2026-01-01'", "after BEGIN"),
    ("jobs trigger report --app shop:app --window yesterdy today", "--window BEGIN: 'yesterdy'", "such as 2026-03-01"),
    ("jobs trigger bills --app shop:app --tenant acmee", "'acmee'", "Did you mean 'acme'?"),
]

APPLICATIONS: list[Row] = [
    ("run", "MODULE:APP", "run --help"),
    ("run shp:app", "'shp:app'", "There is no module 'shp' in"),
    ("run shop:ap", "'shop:ap'", "Did you mean 'app'?"),
    ("dev shp:app", "'shp:app'", "There is no module 'shp' in"),
    ("dev shop:ap", "'shop:ap'", "Did you mean 'app'?"),
    ("run shop:number", "is of type int", "Did you mean 'app'?"),
    ("run shop", "'shop'", "Did you mean shop:app?"),
    ("run ./shop.py", "'./shop.py'", "Did you mean shop:app?"),
    ("run shop.py:app", "'shop.py:app'", "Did you mean shop:app?"),
    ("run shop:needs", "missing a required argument: 'argument'", "a function without parameters"),
    ("run shop:fails", "RuntimeError: no configuration", "shop.py:26"),
]

DATABASES: list[Row] = [
    ("jobs list", "there is no file 'mainspring.db'", "--database-url or MAINSPRING_DATABASE_URL"),
    ("jobs list --database-url=postgrs://localhost/x", "'postgrs://localhost/x'", "Did you mean postgresql://?"),
    ("jobs list --database-url=mysql://localhost/x", "'mysql://localhost/x'", "postgresql://host/name"),
    ("jobs list --database-url=shop.db", "'shop.db'", "sqlite:/// and its path"),
    ("jobs list --database-url=sqlite://shop.db", "'sqlite://shop.db'", "sqlite:///jobs.db"),
    ("jobs list --database-url=sqlite:///missing.db", "no file 'missing.db'", "--database-url"),
    ("jobs list --database-url=sqlite:///folder", "'folder' is a directory", "give the path of a file"),
    ("jobs list --database-url=sqlite:///text.db", "text.db", "give another path"),
    ("jobs list --database-url=sqlite:///foreign.db", "foreign.db holds no Mainspring tables", "check the path"),
    ("jobs list --database-url=memory://", "'memory://'", "--database-url"),
    (
        "jobs list --database-url=postgresql://ada:secret@127.0.0.1:1/x",
        "ada:***@127.0.0.1:1",
        "refused. Is the server",
    ),
    ("db migrate --database-url=sqlite:///nowhere/x.db", "nowhere does not exist", "create it first"),
]

VARIABLES = [
    ({"MAINSPRING_LEESE": "5s"}, "MAINSPRING_LEESE", "did you mean MAINSPRING_LEASE?"),
    ({"MAINSPRING_LEASE": "5x"}, "lease (from MAINSPRING_LEASE): '5x'", '"10m"'),
    ({"MAINSPRING_PRUNE": "maybe"}, "prune (from MAINSPRING_PRUNE): 'maybe'", "true or false"),
    ({"MAINSPRING_PORT": "http"}, "port (from MAINSPRING_PORT): 'http'", "from 0 to 65535"),
    ({"MAINSPRING_TIMEZONE": "Europe/Istambul"}, "'Europe/Istambul'", "Did you mean 'Europe/Istanbul'?"),
    ({"MAINSPRING_ROLES": "boss"}, "roles (from MAINSPRING_ROLES): 'boss'", "'worker'"),
    ({"MAINSPRING_APP": "nope:app"}, "'nope:app'", "There is no module 'nope'"),
]

FILES = [
    ("leese = '5s'", "'leese' (from mainspring.toml)", "did you mean 'lease'?"),
    ("lease = [5]", "lease (from mainspring.toml): [5]", '"10m"'),
    ("release = 'r1'\nlease = \n", "mainspring.toml", "line 2, column 9"),
    ("[engine]\nlease = '5s'", "[engine]", "write lease = ... above all tables"),
    ("zebra = 5", "'zebra' (from mainspring.toml)", "`mainspring config show`"),
    ("[retry]\nattempts = 3", "'attempts' in section [retry]", "did you mean"),
]

DECLARATIONS = [
    ("@app.job('x', cron='99 * * * *')", "cron minute: '99'", "0-59"),
    ("@app.job('x', cron='@daily', trigger=every(minutes=5))", "trigger: Every", "Remove one of them"),
    ("@app.job('x', trigger='0 3 * * *')", "trigger: '0 3 * * *'", "cron='0 3 * * *'"),
    ("@app.job('x', cron='@daily', tz='Europe/Istanbull')", "tz: 'Europe/Istanbull'", "'Europe/Istanbul'?"),
    ("@app.job('x', timeout='10 minutos')", "timeout: '10 minutos'", '"10m"'),
    ("@app.job('x', max_attempt=3)", "option: 'max_attempt'", "Did you mean 'max_attempts'?"),
    ("@app.job('x', every='5s')", "option: 'every'", "Write trigger=every(seconds=5)"),
    ("@app.job('x', minutes=90)", "option: 'minutes'", "a known option. Write trigger=every(minutes=90)"),
    ("@app.job('x', interval='2h')", "option: 'interval'", "Write trigger=every(hours=2)"),
    ("@app.job('x', schedule='0 2 * * *')", "option: 'schedule'", "Write cron='0 2 * * *'"),
    ("@app.job('x', crontab=5)", "option: 'crontab'", "Write cron='0 2 * * *' or trigger="),
    ("@app.job('x', retries=3)", "option: 'retries'", "Write max_attempts=4: the first attempt counts too"),
    ("@app.job('x', timezone='Europe/Paris')", "option: 'timezone'", "Write tz='Europe/Paris'"),
    ("@app.job('x', max_attempts=0)", "max_attempts: 0", "from 1 to 1000"),
    ("@app.job('x', retry='patiant')", "retry: 'patiant'", "Did you mean 'patient'?"),
    ("@app.job('x', retry=3)", "retry: 3", "max_attempts=3"),
    ("@app.job('x', overlap='skpi')", "overlap: 'skpi'", "'skip'"),
    ("@app.job('x', overlap='skipp')", "overlap: 'skipp'", "Did you mean 'skip'?"),
    ("@app.job('x', window='yesteday', cron='@daily')", "window: 'yesteday'", "Did you mean 'yesterday'?"),
    ("@app.job('x', hours='9-17')", "hours.times: '9-17'", '"09:00-17:00"'),
    ("@app.job('x', limits=Limit('{tenat}', rate='5/s'))", "{tenat}", "did you mean {tenant}?"),
    ("@app.job('x', tenants='acme')", "tenants: 'acme'", "Write tenants=['acme']"),
    ("@app.job('x', isolation='proces')", "isolation: 'proces'", "'process'"),
    ("@app.job('x', params={'nme': 1}, cron='@daily')", "'nme'", "did you mean 'name'?"),
    ("@app.job('x', secret='nme')", "secret: 'nme'", "Did you mean 'name'?"),
    ("@app.job('x', after='x')", "after: 'x'", "This is a cycle"),
    ("@app.job('x', cron='${reports.cron}')", "${reports.cron} has no value", "REPORTS_CRON"),
    ("@app.job('x')\ndef handler(self, name): ...", "a method is not valid", "Declare a plain function"),
    ("@app.job('x', cron='@daily')\ndef handler(url): ...", "params.url is missing", "params={'url': ...}"),
    ("app.schedule('x', 'nope', every(minutes=5))", "no handler named 'nope'", "declare it first"),
    ("app.registrar.daily_at('x', work, '25:00')", "time: '25:00'", '"HH:MM"'),
    ("app.registrar.weekly_at('x', work, 'Mo', '03:00')", "weekday: 'Mo'", "mon or monday"),
]
"""Of a job 'x', which the line names together with the file and the line."""

LINES = [
    ("app.job('bad name')", "name: 'bad name'", "Try 'bad-name'"),
    ("app.register('greet')", "handler: 'greet'", "@app.job"),
    ("Retry(intial='5s')", "'intial'", "Did you mean 'initial'?"),
    ("@app.job", "name: handler is not valid", "Write @app.job('handler') above def handler"),
    ("every(5)", "every: 5", "Write every(seconds=5)"),
    ("every('2h')", "every: '2h'", "Write every(hours=2)"),
    ("every(minutes='5')", "minutes: '5'", "every(minutes=30)"),
    ("app.calendars.declare('holidays', ['2026-13-01'])", "'2026-13-01'", '"2026-12-25"'),
    ("Mainspring('sqlite:///shop.db', concurency=4)", "'concurency'", "did you mean 'concurrency'?"),
    ("Mainspring('sqlite:///shop.db', jobs='shop')", "jobs: 'shop'", "Write jobs=['shop']"),
    ("work = app.job('work')(work); work.delay('x')", "no method 'delay'", ".sync.enqueue(...)"),
    ("work = app.job('work')(work); work.apply_async()", "no method 'apply_async'", ".options(start_at=...)"),
    ("app.run()", "must not run itself", "__main__"),
]
"""Other lines of an application; the file and the line are named."""

IMPORTS = [
    ("import requets", "ModuleNotFoundError: No module named 'requets'"),
    ("import os; os.environ['NO_SUCH_VARIABLE']", "KeyError: 'NO_SUCH_VARIABLE'"),
    ("app = Mainspring(", "SyntaxError: '(' was never closed"),
    ("raise SystemExit(3)", "SystemExit: 3"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("wrong")
    (made / "__pycache__").touch()  # no bytecode: the next file may have the same size and second
    (made / "shop.py").write_text(SHOP)
    (made / "folder").mkdir()
    (made / "text.db").write_text("this is no database. " * 50)
    with closing(sqlite3.connect(made / "foreign.db")) as connection:
        connection.execute("CREATE TABLE other (id)")
    names: dict[str, Any] = {}
    exec(SHOP.replace("sqlite:///shop.db", f"sqlite:///{made}/shop.db"), names)

    async def fill(app: Mainspring) -> None:
        await app.enqueue("greet", {"name": "ada"})
        await app.close()

    asyncio.run(fill(names["app"]))
    return made


Fails = Callable[..., str]


@pytest.fixture
def fails(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Fails]:
    """Runs a command that must fail with one line and change nothing; returns that line."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    for name in ("MAINSPRING_APP", "MAINSPRING_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    handlers, modules, before = logging.getLogger("mainspring").handlers[:], set(sys.modules), _contents(folder)

    def run(command: str) -> str:
        head, *rest = command.split("|")
        code = main([*head.split(), *rest])
        out, err = capsys.readouterr()
        assert code in (1, 2), out
        assert out == ""
        assert err.startswith("error: ")
        assert err.count("\n") == 1, err
        assert "Traceback" not in err
        assert len(err) < 500, "nobody reads a line as long as this"
        return err

    yield run
    assert _contents(folder) == before, "a refused command changed something"
    logging.getLogger("mainspring").handlers[:] = handlers
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
            del sys.modules[name]


def _contents(folder: Path) -> dict[str, Any]:
    """How many rows each table of the database has, and the databases that are there."""
    with closing(sqlite3.connect(folder / "shop.db")) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        counts = {name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in tables}
    return {**counts, "databases": sorted(path.name for path in folder.glob("*.db"))}


def _ids(rows: list[Any]) -> list[str]:
    return [str(row[0])[:60] for row in rows]


ROWS = [*COMMANDS, *PARAMETERS, *APPLICATIONS, *DATABASES]


@pytest.mark.parametrize(("command", "wrong", "fix"), ROWS, ids=_ids(ROWS))
def test_a_wrong_command(fails: Fails, command: str, wrong: str, fix: str) -> None:
    said = fails(command)
    assert wrong in said
    assert fix in said


@pytest.mark.parametrize(("variables", "wrong", "fix"), VARIABLES, ids=_ids(VARIABLES))
def test_a_wrong_variable(
    fails: Fails, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], wrong: str, fix: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    said = fails("jobs list" if "MAINSPRING_APP" in variables else f"jobs list {URL}")
    assert wrong in said
    assert fix in said


@pytest.mark.parametrize(("text", "wrong", "fix"), FILES, ids=_ids(FILES))
def test_a_wrong_settings_file(fails: Fails, folder: Path, text: str, wrong: str, fix: str) -> None:
    file = folder / "mainspring.toml"
    file.write_text(text)
    try:
        said = fails(f"jobs list {URL}")
    finally:
        file.unlink()
    assert wrong in said
    assert fix in said


@pytest.mark.parametrize(("text", "wrong", "fix"), [*DECLARATIONS, *LINES], ids=_ids([*DECLARATIONS, *LINES]))
def test_a_wrong_line_of_an_application(fails: Fails, folder: Path, text: str, wrong: str, fix: str) -> None:
    function = "\nasync def handler(ctx, name: str = 'x'): ..." if text.startswith("@") and "def" not in text else ""
    (folder / "wrong.py").write_text(f"{HEAD}{text}{function}\n")
    command = "jobs list --app wrong:app" if "${" in text else "run wrong:app"
    said = fails(command)
    place = f"wrong.py:{DECLARED}"
    assert f"job 'x' ({place}): " in said or (place in said and (text, wrong, fix) in LINES)
    assert wrong in said
    assert fix in said


@pytest.mark.parametrize("command", ["run", "simulate", "jobs trigger greet --app", "worker", "exec greet --app"])
def test_every_command_names_the_declaration(fails: Fails, folder: Path, command: str) -> None:
    (folder / "wrong.py").write_text(f"{HEAD}app.job('x', cron='99 * * * *')(work)\n")
    said = fails(f"{command} wrong:app")
    assert said.startswith(f"error: job 'x' (wrong.py:{DECLARED}): cron minute: '99' is not valid; allowed: 0-59")


def test_a_name_that_is_taken_is_named_with_both_places(fails: Fails, folder: Path) -> None:
    (folder / "wrong.py").write_text(f"{HEAD}app.job('x')(work)\n\napp.job('x')(work)\n")
    said = fails("run wrong:app")
    assert f"first in wrong.py:{DECLARED}, again in wrong.py:{DECLARED + 2}. Rename one of them" in said


@pytest.mark.parametrize(("text", "wrong"), IMPORTS, ids=_ids(IMPORTS))
@pytest.mark.parametrize("through", ["MODULE:APP", "jobs="])
def test_a_failing_import(fails: Fails, folder: Path, text: str, wrong: str, through: str) -> None:
    (folder / "failing.py").write_text(f"\n\n{text}\n")
    (folder / "wrong.py").write_text("from mainspring import *\napp = Mainspring(jobs=['failing'])\n")
    said = fails("run failing:app" if through == "MODULE:APP" else "jobs list --app wrong:app")
    assert "'failing'" in said
    assert f"{wrong} at failing.py:3" in said


async def _run(app: Mainspring) -> None:
    app.run()


ENQUEUES: list[tuple[Callable[[Mainspring], Any], str, str]] = [
    (lambda app: app.enqueue("greet"), "params.name is missing", "takes (name: str"),
    (lambda app: app.enqueue("gret", {"name": "a"}), "'gret'", "did you mean 'greet'?"),
    (lambda app: app.enqueue("greet", {"nme": "a"}), "'nme'", "did you mean 'name'?"),
    (lambda app: app.enqueue("greet", {"name": 5}), "params.name: 5", "allowed: str"),
    (lambda app: app.enqueue("greet", {"name": "a", "times": nan}), "params.times: nan", "a finite number"),
    (lambda app: app.enqueue("greet", {"name": object()}), "params.name", "allowed: str"),
    (lambda app: app.enqueue("greet", [1]), "params: [1]", "an object (dict)"),
    (lambda app: app.enqueue("greet", {"name": LARGE}), "params", "Store large data elsewhere"),
    (lambda app: app.enqueue("greet", {"name": "a"}, start_at="soon"), "start_at: 'soon'", "ISO 8601"),
    (lambda app: app.enqueue("greet", {"name": "a"}, start_at=60), "start_at: 60", "Write a delay as '60s'"),
    (lambda app: app.enqueue("greet", {"name": "a"}, priority="high"), "priority: 'high'", "a whole number"),
    (lambda app: app.enqueue("greet", {"name": "a"}, prio=5), "'prio'", "Did you mean 'priority'?"),
    (lambda app: app.enqueue("greet", name="a"), "'name'", "given as a dict"),
    (lambda app: app.enqueue("greet", {"name": "a"}, unique=5), "unique.enqueued: 5", "printable text"),
    (lambda app: app.trigger("report", window=("2026-01-02", "2026-01-01")), "window.end", "after window.begin"),
    (lambda app: app.trigger("bills", tenants=["acmee"]), "'acmee'", "Did you mean 'acme'?"),
    (lambda app: app.executions(status="faild"), "status: 'faild'", "'failed'"),
    (lambda app: app.executions(since="yesterdy"), "since: 'yesterdy'", "2h"),
    (lambda app: app.pause("report", resume_at=datetime(2020, 1, 1)), "resume_at: ", "in the future"),
    (lambda app: app.update_job("report", retries=2), "field: 'retries'", "Write max_attempts=3"),
    (lambda app: app.update_job("report", overlap="skp"), "overlap: 'skp'", "'skip'"),
    (_run, "app.run() makes an event loop of its own", "await app.start()"),
    (lambda app: app.tokens.create("ci", "operatr"), "role: 'operatr'", "Did you mean 'operator'?"),
    (lambda app: app.tokens.create("ci", "boss"), "role: 'boss'", "'operator'"),
]


@pytest.mark.parametrize("number", range(len(ENQUEUES)))
async def test_a_wrong_call_of_the_library(number: int) -> None:
    call, wrong, fix = ENQUEUES[number]
    names: dict[str, Any] = {}
    exec(SHOP.replace("sqlite:///shop.db", "memory://"), names)
    app: Mainspring = names["app"]
    try:
        with pytest.raises((MainspringError, TypeError)) as raised:
            await call(app)
        said = str(raised.value)
        assert wrong in said
        assert fix in said
        assert "\n" not in said
        assert await app.executions() == []
    finally:
        await app.close()


def test_there_are_enough_of_them() -> None:
    tables: list[list[Any]] = [ROWS, VARIABLES, FILES, DECLARATIONS, LINES, IMPORTS, ENQUEUES]
    assert sum(map(len, tables)) >= 150
