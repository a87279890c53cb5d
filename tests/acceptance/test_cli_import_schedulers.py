"""Imports from APScheduler, Celery beat, django-celery-beat and rq-scheduler, each from the real thing."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from apscheduler.jobstores.base import BaseJobStore
from apscheduler.jobstores.mongodb import MongoDBJobStore
from apscheduler.jobstores.redis import RedisJobStore
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.combining import AndTrigger, OrTrigger
from apscheduler.triggers.cron import CronTrigger
from pymongo import MongoClient
from redis import Redis
from rq_scheduler import Scheduler

from tests.acceptance.importing import Run, imports_into, jobs
from tests.mongo_server import mongo
from tests.servers import postgres
from tests.valkey_server import valkey

pytestmark = pytest.mark.req("MIG-1", "OPS-4")

REDIS_DATABASE = 9
SHOP = """
from mainspring import Mainspring

app = Mainspring("sqlite:///shop.db")


@app.job("refresh", max_attempts=2)
async def refresh(region: str, full: bool = False) -> None: ...


@app.job("send-report")
async def send_report() -> None: ...


@app.job("connect", secret="password")
def connect(password: str, retries: int = 1) -> None: ...


@app.job("cleanup")
def cleanup(days: int = 7) -> None: ...
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    with imports_into(SHOP, tmp_path, monkeypatch, capsys) as run:
        yield run


def redis_url() -> str:
    """A database of our own on the server that all tests share."""
    return valkey().url().removesuffix("0") + str(REDIS_DATABASE)


def results(report: Any) -> dict[str, str]:
    return {row["job"]: row["result"] for row in report["rows"]}


def reasons(report: Any) -> dict[str, str]:
    return {row["job"]: row["reason"] for row in report["rows"]}


def import_twice_and_undo(run: Run, *arguments: str) -> tuple[Any, dict[str, Any]]:
    """The report and the jobs of an import that is planned, made, repeated without effect, and taken back."""
    before = jobs(run)
    planned = run("import", *arguments, "--dry-run")
    assert jobs(run) == before, "a dry run changes nothing"
    done = run("import", *arguments)
    assert done["rows"] == planned["rows"]
    made = jobs(run)
    again = run("import", *arguments)
    assert (again["import"], again["counts"]["create"], again["counts"]["update"]) == (None, 0, 0)
    assert jobs(run) == made
    assert run("executions", "list") == [], "an import runs nothing"
    assert {each["outcome"] for each in run("import", arguments[0], "--undo")["jobs"]} == {"removed"}
    assert jobs(run) == before
    return done, {name: job for name, job in made.items() if name not in before}


# --- APScheduler ------------------------------------------------------------------------------------------------------


def refresh(region: str, full: bool = False) -> None: ...


def send_report(*ignored: object) -> None: ...


def cleanup(days: int = 7) -> None: ...


def connect(password: str, retries: int = 1) -> None: ...


def unknown() -> None: ...


def fill(scheduler: BackgroundScheduler) -> None:
    """Jobs of every kind, stored by a scheduler that never runs them."""
    berlin, later = "Europe/Berlin", datetime.now(UTC) + timedelta(days=30)
    scheduler.start(paused=True)
    add = scheduler.add_job
    add(refresh, "cron", hour=2, minute=30, timezone=berlin, args=["eu"], kwargs={"full": True}, id="nightly")
    add(cleanup, "interval", hours=6, start_date="2026-01-01 01:00:00", timezone="UTC", id="six hours", max_instances=3)
    add(cleanup, "date", run_date=later, id="later", misfire_grace_time=None)
    add(cleanup, "cron", hour="*/2", minute=15, timezone=berlin, id="odd-hours", coalesce=False, misfire_grace_time=90)
    add(cleanup, "cron", hour=4, timezone="UTC", id="jittered", jitter=120, executor="default")
    either = OrTrigger([CronTrigger(hour=6, timezone="UTC"), CronTrigger(day="last", hour=18, timezone="UTC")])
    add(send_report, either, id="either")
    both = AndTrigger([CronTrigger(hour=6), CronTrigger(day=1, hour=6)])
    add(send_report, both, id="both")
    add(cleanup, "cron", hour=5, timezone="UTC", end_date=later, id="ending")
    add(refresh, "cron", hour=5, timezone="UTC", args=[5], id="misfit")
    add(unknown, "cron", hour=5, timezone="UTC", id="unknown")
    add(connect, "cron", hour=5, timezone="UTC", id="connect-daily", args=["hunter2"])
    add(connect, "cron", hour=5, timezone="UTC", id="connect-badly", args=["hunter2"], kwargs={"retries": "many"})
    add(cleanup, "cron", hour=5, timezone="UTC").pause()
    scheduler.shutdown()


def test_a_job_store_of_apscheduler(run: Run, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/old.sqlite"
    fill(BackgroundScheduler(jobstores={"default": SQLAlchemyJobStore(url=url)}))
    refused = run("import", "apscheduler", "--from", url, code=2)
    assert "--trust-pickles" in refused
    assert refused.count("\n") == 1

    with closing(sqlite3.connect(tmp_path / "old.sqlite")) as connection:
        gone = b"cgone_module\nTrigger\n."  # a pickle that names a module which is no longer there
        connection.execute("INSERT INTO apscheduler_jobs VALUES ('gone', NULL, ?)", [gone])
        connection.commit()
    report, made = import_twice_and_undo(run, "apscheduler", "--from", url, "--trust-pickles")
    [paused] = [name for name in made if name.startswith("cleanup-")]
    assert results(report) == {
        "nightly": "exact",
        "six-hours": "exact",
        "later": "exact",
        "odd-hours": "changed",
        "jittered": "changed",
        "either": "exact",
        "both": "needs review",
        "ending": "needs review",
        "misfit": "needs review",
        "unknown": "needs review",
        "gone": "needs review",
        "connect-daily": "exact",
        "connect-badly": "needs review",
        paused: "exact",
    }
    why = reasons(report)
    assert "APScheduler fires and the job does not" in why["odd-hours"]
    assert "jitter=120" in why["jittered"]
    assert "several agree" in why["both"]
    assert "ends at" in why["ending"]
    assert "No module named 'gone_module'" in why["gone"]
    assert "hunter2" not in str(report), "the secrets of a handler are not shown"
    assert "params.region" in why["misfit"]
    assert "--map 'tests.acceptance.test_cli_import_schedulers:unknown=HANDLER'" in why["unknown"]
    nightly = made["nightly"]
    assert (nightly["handler"], nightly["params"]) == ("refresh", {"region": "eu", "full": True})
    assert nightly["policy"]["max_attempts"] == 2, "as the handler's own job declares"
    assert (made["six-hours"]["policy"]["overlap"], made["six-hours"]["policy"]["overlap_limit"]) == ("allow", 3)
    assert made["later"]["policy"]["missed"] == "latest"
    assert made["odd-hours"]["policy"]["grace"] == 90
    assert made["either"]["schedule"] == "0 6 * * * | 0 18 L * *"
    assert made[paused]["schedule_enabled"] is False


@pytest.mark.parametrize("kind", ["redis", "mongodb"])
def test_other_job_stores_of_apscheduler(run: Run, kind: str) -> None:
    if kind == "redis":
        url = redis_url()
        Redis.from_url(url).flushdb()
        store: BaseJobStore = RedisJobStore(host="127.0.0.1", port=valkey().port, db=REDIS_DATABASE)
    else:
        url = mongo("standalone").new_database()
        client: MongoClient[dict[str, Any]] = MongoClient(url)
        store = MongoDBJobStore(client=client, database=client.get_default_database().name)
    fill(BackgroundScheduler(jobstores={"default": store}))
    report = run("import", "apscheduler", "--from", url, "--trust-pickles", "--dry-run")
    assert report["results"] == {"exact": 6, "changed": 2, "needs review": 5}


SCHEDULER = """
from apscheduler.schedulers.background import BackgroundScheduler

scheduler = BackgroundScheduler(timezone="Europe/Berlin")


@scheduler.scheduled_job("interval", minutes=10, args=["eu"])
@scheduler.scheduled_job("cron", hour=3, args=["us"])
def refresh(region): ...
"""


def test_a_scheduler_object_of_apscheduler(run: Run, tmp_path: Path) -> None:
    """Its jobs have random ids, other ones in each process."""
    (tmp_path / "old_jobs.py").write_text(SCHEDULER)
    sys.modules.pop("old_jobs", None)
    report = run("import", "apscheduler", "--from", "old_jobs:scheduler")
    sys.modules.pop("old_jobs", None)
    assert [row["becomes"] for row in report["rows"]] == ["0 3 * * *", "every 10 min"]
    assert [row["result"] for row in report["rows"]] == ["exact", "exact"]
    assert "counted from the import" in report["rows"][1]["reason"]
    assert run("import", "apscheduler", "--from", "old_jobs:scheduler")["import"] is None
    run("import", "apscheduler", "--undo")
    source = ["import", "apscheduler", "--from", "old_jobs:scheduler"]
    disabled = run(*source, "--disabled")
    assert {jobs(run)[row["job"]]["schedule_enabled"] for row in disabled["rows"]} == {False}
    enabled = run(*source)
    assert enabled["counts"] == {"create": 0, "update": 2, "unchanged": 0, "review": 0}
    assert {jobs(run)[row["job"]]["schedule_enabled"] for row in enabled["rows"]} == {True}
    assert {each["outcome"] for each in run("import", "apscheduler", "--undo")["jobs"]} == {"restored"}
    assert {jobs(run)[row["job"]]["schedule_enabled"] for row in enabled["rows"]} == {False}
    assert "a scheduler of APScheduler 3" in run("import", "apscheduler", "--from", "old_jobs:refresh.__name__", code=2)
    sys.modules.pop("old_jobs", None)


# --- Celery -----------------------------------------------------------------------------------------------------------

CELERY = """
from datetime import timedelta

from celery import Celery
from celery.schedules import crontab, schedule, solar

celery = Celery("shop")
sunrise = solar.__new__(solar)  # its constructor needs the package ephem
sunrise.event, sunrise.lat, sunrise.lon = "sunrise", 52.5, 13.4
celery.conf.timezone = "Europe/Berlin"
celery.conf.beat_schedule = {
    "nightly refresh": {
        "task": "shop.tasks.refresh", "schedule": crontab(minute=30, hour=2), "args": ("eu",), "kwargs": {"full": True},
    },
    "often": {"task": "shop.tasks.send_report", "schedule": crontab(minute="*/10")},
    "first monday": {"task": "cleanup", "schedule": crontab(minute=0, hour=4, day_of_month="1-7", day_of_week="mon")},
    "half a minute": {"task": "cleanup", "schedule": 30.0, "options": {"queue": "slow", "expires": 60, "priority": 5}},
    "daily": {"task": "cleanup", "schedule": timedelta(days=1), "relative": True},
    "sunrise": {"task": "cleanup", "schedule": sunrise},
    "mapped": {"task": "shop.other.tidy", "schedule": schedule(timedelta(hours=1)), "kwargs": {"days": 3}},
    "too many": {"task": "shop.tasks.send_report", "schedule": 60, "args": (1, 2)},
}


@celery.on_after_finalize.connect
def added_later(sender, **ignored):
    sender.add_periodic_task(crontab(minute=0, hour=12), sender.tasks["shop.noon"], name="noon")


@celery.task(name="shop.noon")
def noon(): ...
"""


def test_the_beat_schedule_of_a_celery_application(run: Run, tmp_path: Path) -> None:
    (tmp_path / "old_celery.py").write_text(CELERY)
    sys.modules.pop("old_celery", None)
    maps = ["--map", "shop.other.*=cleanup", "--map", "shop.noon=send-report"]
    report, made = import_twice_and_undo(run, "celery-beat", "--from", "old_celery:celery", *maps)
    assert results(report) == {
        "nightly-refresh": "exact",
        "often": "changed",
        "first-monday": "exact",
        "half-a-minute": "changed",
        "daily": "exact",
        "sunrise": "needs review",
        "mapped": "exact",
        "too-many": "needs review",
        "noon": "exact",
    }
    why = reasons(report)
    assert "the job fires and Celery does not" in why["often"]
    assert "expires=1m" in why["half-a-minute"]
    assert "follows the sun" in why["sunrise"]
    assert "takes no parameters" in why["too-many"]
    assert made["half-a-minute"]["queue"] == "slow"
    assert made["half-a-minute"]["policy"]["overlap"] == "allow"
    assert made["mapped"]["params"] == {"days": 3}
    assert report["rows"][0]["timezone"] == "Europe/Berlin"
    sys.modules.pop("old_celery", None)


# --- django-celery-beat -----------------------------------------------------------------------------------------------

DJANGO = """
import importlib.util, sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import django

# django-celery-beat needs python-crontab, whose module has the name of a package that rq-scheduler needs
place = Path(django.__file__).parent.parent / "crontab.py"
spec = importlib.util.spec_from_file_location("crontab", place)
sys.modules["crontab"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["crontab"])
from django.conf import settings

engine, name, port = sys.argv[1:]
database = {"ENGINE": f"django.db.backends.{engine}", "NAME": name}
if port:
    database |= {"HOST": "127.0.0.1", "PORT": port, "USER": "postgres"}
settings.configure(INSTALLED_APPS=["django_celery_beat"], DATABASES={"default": database}, USE_TZ=True)
django.setup()
from django.core.management import call_command

call_command("migrate", verbosity=0)
from django_celery_beat.models import (
    ClockedSchedule, CrontabSchedule, IntervalSchedule, PeriodicTask, SolarSchedule,
)

now = datetime.now(UTC)
add = PeriodicTask.objects.create
night = CrontabSchedule.objects.create(minute="30", hour="2", timezone="Europe/Berlin")
week = CrontabSchedule.objects.create(minute="0", hour="9", day_of_week="mon-fri", timezone="UTC")
hours = IntervalSchedule.objects.create(every=6, period="hours")
later = ClockedSchedule.objects.create(clocked_time=now + timedelta(days=9))
past = ClockedSchedule.objects.create(clocked_time=now - timedelta(days=9))
sun = SolarSchedule.objects.create(event="sunrise", latitude=52.5, longitude=13.4)
add(name="Nightly: refresh", task="shop.tasks.refresh", crontab=night, args='["eu"]', kwargs='{"full": true}')
add(name="weekdays", task="cleanup", crontab=week, enabled=False, queue="slow", priority=3)
add(name="six hours", task="cleanup", interval=hours, last_run_at=now - timedelta(hours=1))
add(name="later", task="cleanup", clocked=later, one_off=True)
add(name="past", task="cleanup", clocked=past, one_off=True)
add(name="sunrise", task="cleanup", solar=sun)
add(name="once", task="cleanup", crontab=week, one_off=True)
add(name="ended", task="cleanup", crontab=week, expires=now - timedelta(days=1))
add(name="celery.backend_cleanup", task="celery.backend_cleanup", crontab=night)
"""


@pytest.mark.parametrize("engine", ["sqlite3", "postgresql"])
def test_the_tables_of_django_celery_beat(run: Run, tmp_path: Path, engine: str) -> None:
    if engine == "sqlite3":
        name, port, url = str(tmp_path / "django.sqlite3"), "", f"sqlite:///{tmp_path}/django.sqlite3"
    else:
        url = postgres().new_database()
        name, port = url.rpartition("/")[2], str(postgres().port)
    program = [sys.executable, "-c", DJANGO, engine, name, port]
    subprocess.run(program, check=True, cwd=tmp_path, env=os.environ.copy())
    report, made = import_twice_and_undo(run, "django-celery-beat", "--from", url)
    assert results(report) == {
        "Nightly-refresh": "exact",
        "weekdays": "changed",
        "six-hours": "exact",
        "later": "exact",
        "past": "needs review",
        "sunrise": "needs review",
        "once": "needs review",
        "ended": "needs review",
        "celery.backend_cleanup": "needs review",
    }
    why = reasons(report)
    assert "priority 3" in why["weekdays"]
    assert "past" in why["past"]
    assert "has ended" in why["ended"]
    assert made["Nightly-refresh"]["params"] == {"region": "eu", "full": True}
    assert (made["weekdays"]["schedule_enabled"], made["weekdays"]["queue"]) == (False, "slow")
    assert made["weekdays"]["schedule"] == "0 9 * * 1-5"


# --- rq-scheduler -----------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::FutureWarning:rq_scheduler", "ignore::DeprecationWarning:rq_scheduler")
def test_the_jobs_of_rq_scheduler(run: Run) -> None:
    connection = Redis.from_url(redis_url())
    connection.flushdb()
    scheduler, soon = Scheduler(connection=connection), datetime.now(UTC) + timedelta(hours=2)
    scheduler.cron("30 4 * * *", refresh, args=["eu"], kwargs={"full": True}, id="nightly", timeout=90)
    scheduler.cron("*/5 * * * *", send_report, id="often", queue_name="slow")
    scheduler.schedule(soon, cleanup, interval=3600, id="hourly", kwargs={"days": 2})
    scheduler.schedule(soon, cleanup, interval=3600, repeat=3, id="thrice")
    scheduler.enqueue_at(soon, cleanup)
    scheduler.schedule(soon, send_report, args=[timedelta(1)], interval=60, id="object")
    source = ["rq-scheduler", "--from", redis_url(), "--timezone", "Europe/Berlin"]

    report, made = import_twice_and_undo(run, *source)
    [once] = [name for name in made if name.startswith("cleanup-")]
    assert results(report) == {
        "nightly": "exact",
        "often": "changed",
        "hourly": "exact",
        "thrice": "needs review",
        once: "exact",
        "object": "needs review",
    }
    why = reasons(report)
    assert "rq-scheduler fires and the job does not" in why["often"]
    assert "repeats 3 more times" in why["thrice"]
    assert "--trust-pickles" in why["object"]
    trusted = reasons(run("import", *source, "--trust-pickles", "--dry-run"))
    assert "takes no parameters" in trusted["object"], "then its arguments are read, and do not fit"
    assert (made["nightly"]["policy"]["timeout"], made["nightly"]["params"]) == (90, {"region": "eu", "full": True})
    assert (made["often"]["queue"], made["hourly"]["interval_minutes"]) == ("slow", 60)
    scheduler.cancel("hourly")
    assert "127.0.0.1:1" in run("import", "rq-scheduler", "--from", "redis://127.0.0.1:1/0", code=2)
