"""What the commands of a page find when they are typed: a folder with an application, a database with a history, and
servers on this machine in the place of those that the page names."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from mainspring.cli.commands.init import starter
from mainspring.model.values.webhook_signatures import new_secret
from tests.docs.blocks import ROOT, blocks
from tests.docs.shell import PATIENCE, Running, Server, Shell, clean_environ
from tests.mongo_server import mongo
from tests.servers import Postgres, free_port, new_postgres
from tests.valkey_server import valkey

APPLICATION = Path(__file__).parent / "shop.py"
QUICKSTART_PAGES = {"README.md", "docs/index.md"}
"""Their own first block of Python is the application `jobs:app`."""
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

SEED = """
import asyncio, json
from shop.jobs import app

async def main():
    ids = {}
    await app.start(roles="worker,scheduler", concurrency=20)
    done = [await app.enqueue("crawl") for _ in range(4)]
    failed = [await app.enqueue("pay", {"order": n}) for n in range(30)]
    tenants = await app.trigger("invoices")
    late = await app.trigger("report")
    for each in [*done, *failed, tenants, late]:
        await app.wait(each.id)
    for number in range(4):
        await app.wait(await app.enqueue("charge", {"order_id": number}))
    ids["completed"] = [each.id for each in done]
    ids["failed"] = [each.id for each in failed]
    ids["tenants"] = [tenants.id]
    while not await app.errors.all(job="charge"):
        await asyncio.sleep(0.02)
    ids["group"] = [(await app.errors.all(job="charge"))[0].id]
    await app.hooks.set("github", "deploy", style="github")
    await app.hooks.set("ci", "deploy", secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    async with app.lock("import", ttl="1h", hold_at_least="1h"):
        pass
    await app.stop()
    await app.close()
    await app.open()
    ids["pending"] = [(await app.enqueue("mail", start_at="1d")).id for _ in range(6)]
    await app.trigger("hourly")
    ids["bulk"] = [
        (await app.bulk.start("retry", ids=[one])).id for one in ids["failed"][-6:]
    ]
    ids["running bulk action"] = [(await app.bulk.start("retry", ids=ids["failed"][:9], pace="1/h")).id]
    ids["running backfill"] = [(await app.backfills.start("report", "2026-01-01", "2026-02-01", pace="1h")).id]
    ids["token"] = [(await app.tokens.create("assistant", role="operator")).text.reveal()]
    ids["backfill"] = [
        (await app.backfills.start("revenue", f"2026-0{n}-01", f"2026-0{n}-03")).id for n in range(1, 7)
    ]
    await app.close()
    print(json.dumps(ids))

asyncio.run(main())
"""
FILES = {
    "rates.csv": "EUR,1\n",
    "crontab.txt": "30 2 * * * /opt/shop/close-day\n",
    "system-crontab": "30 2 * * * root /opt/dump-all\n",
    "rows.csv": "name,schedule,command\nclose,30 2 * * *,/opt/shop/close-day\n",
    "holidays.ics": "BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//shop\nBEGIN:VEVENT\nUID:1\nDTSTAMP:20260101T000000Z\n"
    "DTSTART;VALUE=DATE:20261225\nSUMMARY:Christmas\nEND:VEVENT\nEND:VCALENDAR\n",
    "key.txt": new_secret("v1a"),
    "secret.txt": f"{SECRET}\n",
    "shop/main.py": "from apscheduler.schedulers.background import BackgroundScheduler\n\n"
    "scheduler = BackgroundScheduler()\nscheduler.add_job(print, 'interval', hours=1, id='crawl')\n",
    "shop/celery.py": "from celery import Celery\n\napp = Celery('shop')\n"
    "app.conf.beat_schedule = {'crawl': {'task': 'crawl', 'schedule': 3600.0}}\n",
}
FOLDERS = ("backup/wal", "etc/prometheus", "etc/systemd/system", "home/ada", "opt", "var/spool/cron/crontabs")
"""Of the reader's machine, which is a folder of the world."""
MACHINE = {"var/spool/cron/crontabs/shop": "crontab.txt", "etc/crontab": "system-crontab"}
"""Files of that machine, and those of this world that are there."""
ABSOLUTE = re.compile(r"(?<=[\s=:'\"])/(?=(?:backup|etc|home|opt|var)/)")
EMPTY_PAGES = {"docs/development.md"}
"""They begin in an empty folder."""
STARTER_PAGES = {f"docs/deploy/{name}.md" for name in ("docker", "kubernetes", "systemd")}
"""They deploy what `mainspring init` writes."""
TOKEN_PAGES = {*STARTER_PAGES, "docs/cli.md"}
"""Their servers take API tokens."""
IN_A_CONTAINER = re.compile(r"^(?:kubectl exec \S+ -- |docker compose exec \w+ |docker run .*(?:jobs|shop):[\d.]+ )")
"""What is before a command of Mainspring. An image runs `mainspring` with the arguments behind its name."""
OTHER_SHELLS = {"completion zsh": "zsh -fc 'autoload -U compinit; compinit -u; %s'", "completion fish": "fish -c '%s'"}
"""Commands that other shells run, and how."""
CRON_ROWS = "CREATE TABLE cron_jobs (name text, schedule text, command text)"
APSCHEDULER = "CREATE TABLE {} (id varchar(191) PRIMARY KEY, next_run_time float, job_state {})"
OLD_FILES = {"old.db": CRON_ROWS, "jobs.sqlite": APSCHEDULER.format("my_jobs", "blob")}
OLD_TABLES = f"{CRON_ROWS}; {APSCHEDULER.format('apscheduler_jobs', 'bytea')}"
"""Of schedulers from which the pages import."""
LATE_PAGES = {"docs/alerts.md"}
LATE = """
UPDATE mainspring.job SET due = due - 172800000000, next_run = next_run - 172800000000 WHERE name = 'nightly';
UPDATE mainspring.live SET due = due - 172800000000 WHERE job_key IN
    (SELECT key FROM mainspring.incarnation WHERE job = 'hourly')
"""
"""The databases of these pages have jobs that are late: one without a scheduler, and one without a worker."""
POSTGRES = re.compile(
    r"postgresql(?P<colon>:|%3A)//(?:(?P<user>\w+)(?::[^@\"]*)?(?P<at>@|%40))?[\w.]+(?:(?::|%3A)\d+)?(?:/(?P<name>\w+))?"
)
PLACEHOLDER = re.compile(
    r"\b(?:0123456789ab|5f0c8a3b9d21|5f0c1a2b3c4d|538cc0ef007c|0198f0aa|EXECUTION_ID|01a1eae9-[\w-]+)"
)
"""How the pages write an id that the reader replaces."""
KINDS = [  # the first whose words are in the command says which id its placeholder stands for
    ("errors ", "group"),
    ("--error-group", "group"),
    ("bulk abort", "running bulk action"),
    ("bulk ", "bulk"),
    ("backfill pause", "running backfill"),
    ("backfill resume", "running backfill"),
    ("backfill cancel", "running backfill"),
    ("backfill ", "backfill"),
    ("workers ", "worker"),
    ("--failed-only", "tenants"),
    ("executions retry", "failed"),
    ("executions cancel", "pending"),
    ("", "completed"),
]


@cache
def durable_postgres() -> Postgres:
    """As in production: `mainspring doctor` finds no fault with it."""
    server = new_postgres(fsync="on", full_page_writes="on")
    server.start()
    return server


class History:
    """A database with some executions, made once and copied for each page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "shop").mkdir()
        shutil.copy(APPLICATION, folder / "shop" / "jobs.py")
        (folder / "shop" / "__init__.py").touch()
        (folder / "seed.py").write_text(SEED)
        done = subprocess.run(
            [sys.executable, "seed.py"],
            cwd=folder,
            env=clean_environ(),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr[-1500:]
        self.ids: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])


class World:
    def __init__(self, page: str, folder: Path, server: Server, history: History, receiver: str) -> None:
        self.page, self.folder = page, folder
        self._history, self._receiver = history, receiver
        self._ids = {kind: list(ids) for kind, ids in history.ids.items()}
        self._process: Running | None = None
        self.token = ""
        self._databases = set[str]()
        self._mongo: dict[str, str] = {}
        self.port, self.metrics_port = free_port(), free_port()
        self._write_files()
        environ = {
            "MAINSPRING_PORT": str(self.port),
            "MAINSPRING_PRIVATE_URLS": "true",
            "SECRET": SECRET,
            "HOME": str(folder),
            "PGDATA": str(folder / "machine/backup/base"),
        }
        if page in TOKEN_PAGES:
            environ["MAINSPRING_API_TOKENS"] = "true"
        if page not in STARTER_PAGES:
            environ["MAINSPRING_DATABASE_URL"] = "sqlite:///jobs.db"
        self.shell = Shell(server, folder, environ)

    def _write_files(self) -> None:
        self.folder.mkdir()
        (self.folder / ".curlrc").write_text('silent\nshow-error\nfail-with-body\nnoproxy = "*"\n')
        if self.page in EMPTY_PAGES:
            return
        (self.folder / "shop").mkdir()
        for name, text in FILES.items():
            (self.folder / name).write_text(text)
        (self.folder / "url.txt").write_text(f"{self._receiver}/chat\n")
        (self.folder / "shop" / "__init__.py").touch()
        shutil.copy(APPLICATION, self.folder / "shop" / "jobs.py")
        (self.folder / "jobs.py").write_text("from shop.jobs import app as app\n")
        for name in ("benchmarks", "deploy", "tests"):
            (self.folder / name).symlink_to(ROOT / name)
        for name in FOLDERS:
            (self.folder / "machine" / name).mkdir(parents=True)
        self.keep_token(self._history.ids["token"][0])
        for file, statement in OLD_FILES.items():
            with closing(sqlite3.connect(self.folder / file)) as connection:
                connection.execute(statement)
        for name, source in MACHINE.items():
            shutil.copy(self.folder / source, self.folder / "machine" / name)
        if self.page in STARTER_PAGES:
            for name in ("jobs.py", "mainspring.toml"):
                (self.folder / name).write_text(starter(name))
        if self.page in QUICKSTART_PAGES:
            quickstart = next(block for block in blocks(ROOT / self.page) if block.language == "python")
            (self.folder / "jobs.py").write_text(quickstart.text)
        else:
            for file in self._history.folder.glob("jobs.db*"):
                shutil.copy(file, self.folder)

    def typed(self, command: str) -> str:
        """The command with what this world has in the place of the reader's own servers, ids and ports."""
        command = IN_A_CONTAINER.sub(lambda found: "mainspring " * found[0].startswith("docker run"), command)
        command = command.replace("--items 200000", "--items 200")
        command = re.sub(r"^helm install", "helm template", command)
        command = command.replace("[", "").replace("]", "") if re.search(r"\[--", command) else command
        command = POSTGRES.sub(self._postgres_address, command)
        command = re.sub(r"mongodb://[\w.]+/(\w+)", self._mongo_address, command)
        command = re.sub(r"redis://localhost:6379/0", lambda _: valkey().url(), command)
        command = command.replace("https://example.com", self._receiver)
        command = command.replace("https://jobs.example.com", f"http://localhost:{self.port}")
        command = re.sub(r"(?<=localhost:)8000\b|\b870[01]\b", str(self.port), command)
        command = command.replace("9464", str(self.metrics_port))
        command = re.sub(r"\bmainspring_(?:[0-9a-f]*…|\.\.\.)", self.token, command)
        command = ABSOLUTE.sub(f"{self.folder}/machine/", command)
        outside = [
            each for each in re.findall(r"\s(/\S+)", command) if not each.startswith((str(self.folder), "/dev/"))
        ]
        assert outside == [], f"{command}: only files of this world may be touched; see ABSOLUTE"
        command = re.sub(r"^make\b", f"make --dry-run --directory {ROOT}", command)
        command = next((shell % command for words, shell in OTHER_SHELLS.items() if words in command), command)
        return PLACEHOLDER.sub(lambda found: self._id_for(command), command)

    def _postgres_address(self, found: re.Match[str]) -> str:
        """The same user and database on the server of the tests, made with our tables when first named."""
        server, colon = durable_postgres(), found["colon"]
        user, name = found["user"] or "postgres", found["name"] or "postgres"
        if not server.execute(f"SELECT 1 FROM pg_roles WHERE rolname = '{user}'"):
            server.execute(f"CREATE ROLE {user} LOGIN SUPERUSER")
        if not server.execute(f"SELECT 1 FROM pg_database WHERE datname = '{name}'"):
            made = server.migrated_database().rpartition("/")[2]
            server.execute(f"ALTER DATABASE {made} RENAME TO {name}")
            server.execute(OLD_TABLES, name)
            if self.page in LATE_PAGES:
                self._make_late(f"postgresql://postgres@127.0.0.1:{server.port}/{name}", name)
        self._databases |= {name} - {"postgres"}
        return f"postgresql{colon}//{user}{found['at'] or '@'}127.0.0.1{colon}{server.port}/{name}"

    def _make_late(self, url: str, name: str) -> None:
        copied = self.shell.run(f"mainspring db copy sqlite:///jobs.db {url}")
        assert copied.code == 0, copied.output
        durable_postgres().execute(LATE, name)

    def _mongo_address(self, found: re.Match[str]) -> str:
        if found[1] not in self._mongo:
            self._mongo[found[1]] = mongo("replica_set").new_database()
            self.shell.run(f"mainspring db migrate --database-url '{self._mongo[found[1]]}'")
        return self._mongo[found[1]]

    def _id_for(self, command: str) -> str:
        kind = next(kind for words, kind in KINDS if words in command)
        ids = self._ids[kind]
        return ids.pop(0) if len(ids) > 1 else ids[0]

    def keep_token(self, output: str) -> None:
        self.token = output.split("\n")[0]
        for name in ("token.txt", "machine/home/ada/.mainspring-token"):
            (self.folder / name).write_text(self.token)

    def begin(self) -> None:
        """Another block."""
        if self.page in STARTER_PAGES:
            self.shell.run(f"cd {self.folder}")

    def serve(self) -> None:
        """A process with all roles runs, for commands that need one."""
        if self._process is not None:
            return
        application = "jobs:app" if self.page in QUICKSTART_PAGES | STARTER_PAGES else "shop.jobs:app"
        self._process = running = self.shell.start(
            f"mainspring run {application} --roles scheduler,worker,api --port {self.port}"
        )
        running.alive("listening on")
        running.alive("next_runs")
        worker = re.search(r"worker=…(\w+)", running.said())
        assert worker is not None
        self._ids["worker"] = [worker[1]]

    def stop(self) -> None:
        if self._process is not None:
            self._process.interrupt()
            self._process = None

    def close(self) -> None:
        self.stop()
        self.shell.close()
        for name in self._databases:
            durable_postgres().execute(f"DROP DATABASE {name} WITH (FORCE)")


class _Accepts(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


def receiver() -> Iterator[str]:
    """The address of a server on this machine that accepts whatever is posted to it."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Accepts) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
