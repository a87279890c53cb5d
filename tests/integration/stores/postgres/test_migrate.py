"""The schema of a PostgreSQL database: created, kept up to date, refused when newer, shown and printed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import psycopg
import pytest

from mainspring.admin import schema
from mainspring.cli.root import run_command
from mainspring.model.errors import ConfigurationError, SchemaMismatch, StoreError
from mainspring.model.store.messages import HeartbeatRequest, LogLine, WorkerInfo
from mainspring.model.store.schema import SchemaSteps
from mainspring.stores.postgres import PostgresStore, migrate
from mainspring.stores.postgres.statements import VERSIONS, definitions, versions
from tests.integration.stores.postgres.test_store import life, opened
from tests.servers import postgres
from tests.support import until

NEWEST = max(VERSIONS)
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
OURS = "SELECT mainspring.backlog()"
OTHERS = "CREATE OR REPLACE FUNCTION mainspring.backlog() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 7'"


@pytest.fixture
def url() -> str:
    return postgres().new_database()


def ask(url: str, text: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(text.encode())
        return cursor.fetchall() if cursor.description else []


def at_step_2(url: str) -> None:
    steps = " ".join(text for _, text in versions()[:2])
    ask(url, f"CREATE SCHEMA mainspring; {steps} UPDATE mainspring.meta SET value = 2 WHERE key = 'schema'")


async def open_once(url: str) -> None:
    async with opened(url):
        pass


@pytest.mark.req("OPS-5")
async def test_any_number_may_migrate_at_once(url: str) -> None:
    stores = [PostgresStore(url) for _ in range(8)]
    await asyncio.gather(*(store.open() for store in stores))
    await life(stores[0])
    await asyncio.gather(*(store.close() for store in stores))


@pytest.mark.req("OPS-5")
async def test_a_current_database_is_left_alone(url: str) -> None:
    await open_once(url)
    before = ask(
        url, "SELECT oid, xmin::text FROM pg_proc WHERE pronamespace = 'mainspring'::regnamespace ORDER BY oid"
    )
    await open_once(url)
    after = ask(url, "SELECT oid, xmin::text FROM pg_proc WHERE pronamespace = 'mainspring'::regnamespace ORDER BY oid")
    assert before == after


@pytest.mark.req("OPS-5", "EXE-11")
async def test_log_lines_of_version_1_are_kept_without_a_logger(url: str) -> None:
    ask(url, f"CREATE SCHEMA mainspring; {versions()[0][1]} UPDATE mainspring.meta SET value = 1 WHERE key = 'schema'")
    id = "0199c1f2-7d5e-7abc-8def-0123456789ab"
    ask(url, f"INSERT INTO mainspring.log (execution_id, seq, at, level, message) VALUES ('{id}', 1, 5, 'INFO', 'old')")
    async with opened(url) as store:
        assert await store.logs(id) == [(1, LogLine(5, "INFO", "old"))]
    assert ask(url, "SELECT value FROM mainspring.meta WHERE key = 'schema'") == [(migrate.STEPS.base,)]


@pytest.mark.req("OPS-5")
async def test_a_schema_of_a_later_release_is_refused(url: str) -> None:
    await open_once(url)
    ask(url, f"UPDATE mainspring.meta SET value = {NEWEST + 1} WHERE key = 'schema'")
    with pytest.raises(SchemaMismatch, match=f"schema is at {NEWEST + 1}, this release needs {NEWEST}"):
        await PostgresStore(url).open()


@pytest.mark.req("OPS-5")
async def test_a_changed_function_is_applied_again(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As after an upgrade: what an earlier release has put there differs from what this one ships."""
    await open_once(url)
    ask(url, OTHERS)
    ask(url, "UPDATE mainspring.definition SET checksum = 'other', release = '{0,0,9}' WHERE name = 'backlog'")
    shown = await asyncio.to_thread(status_of, url, capsys)
    assert (shown["expanded"], shown["pending"], shown["outdated"]) == (NEWEST, [], ["backlog"])
    await asyncio.gather(*(open_once(url) for _ in range(4)))
    assert ask(url, OURS) == [(50,)]
    assert (await asyncio.to_thread(status_of, url, capsys))["outdated"] == []


@pytest.mark.req("OPS-5")
async def test_a_function_of_a_newer_release_stays(url: str) -> None:
    """Of two releases that share a database during a deployment, the newer one wins, whichever starts last."""
    await open_once(url)
    ask(url, OTHERS)
    ask(url, "UPDATE mainspring.definition SET checksum = 'other', release = '{0,10}' WHERE name = 'backlog'")
    await open_once(url)
    assert ask(url, OURS) == [(7,)]


@pytest.mark.req("OPS-5")
async def test_a_failed_migration_leaves_nothing_behind(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = [*definitions(), definitions()[0]._replace(name="broken", text="CREATE FUNCTION nonsense")]
    monkeypatch.setattr(migrate, "definitions", lambda schema: broken)
    with pytest.raises(Exception, match="syntax error"):
        await PostgresStore(url).open()
    assert ask(url, "SELECT count(*) FROM pg_namespace WHERE nspname = 'mainspring'") == [(0,)]
    monkeypatch.undo()
    await open_once(url)


def test_definitions_have_names_of_their_own() -> None:
    names = [one.name for one in definitions()]
    assert len(set(names)) == len(names)
    assert all(f"FUNCTION mainspring.{one.name}(" in one.text for one in definitions() if one.name != "views")


# --- the command line -------------------------------------------------------------------------------------------------


def status_of(url: str, capsys: pytest.CaptureFixture[str], command: str = "status") -> dict[str, Any]:
    assert run_command(["db", command, "--database-url", url, "-o", "json"]) == 0
    shown: dict[str, Any] = json.loads(capsys.readouterr().out)
    return shown


@pytest.mark.req("OPS-4", "OPS-5")
def test_the_command_line_shows_migrates_and_prints(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"{url}?schema=jobs"
    before = status_of(url, capsys)
    assert (before["schema"], before["expanded"], before["pending"]) == ("jobs", 0, list(VERSIONS))
    assert before["outdated"] == sorted(one.name for one in definitions())
    assert run_command(["db", "status", "--database-url", url]) == 0
    assert "to replace" not in capsys.readouterr().out, "an empty database has nothing to replace"
    after = status_of(url, capsys, "migrate")
    assert (after["expanded"], after["pending"], after["outdated"]) == (NEWEST, [], [])
    assert status_of(url, capsys) == status_of(url, capsys, "migrate") == after
    assert run_command(["db", "status", "--database-url", url]) == 0
    assert f"{NEWEST} of {NEWEST}" in capsys.readouterr().out


@pytest.mark.req("OPS-4", "OPS-5")
async def test_the_printed_sql_is_what_an_administrator_can_apply(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Applied by hand, it leaves nothing to migrate: the application needs no right to create anything."""
    assert await asyncio.to_thread(run_command, ["db", "sql", "--database-url", url]) == 0
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(capsys.readouterr().out.encode())
        connection.execute("DROP ROLE IF EXISTS worker")
        connection.execute("CREATE ROLE worker LOGIN")
        connection.execute("GRANT USAGE ON SCHEMA mainspring TO worker")
        connection.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA mainspring TO worker")
        connection.execute("GRANT USAGE ON ALL SEQUENCES IN SCHEMA mainspring TO worker")
        connection.execute("UPDATE mainspring.meta SET value = 0 WHERE key = 'partitions'")
        last_month = r"SELECT max(relname) FROM pg_class WHERE relname ~ '^history_\d{4}_\d\d$' AND relkind = 'r'"
        [[name]] = connection.execute(last_month.encode()).fetchall()
        connection.execute(f"DROP TABLE mainspring.{name}".encode())  # which the worker may not make again
    async with opened(url.replace("postgres@", "worker@")) as store:
        await life(store)


@pytest.mark.req("OPS-4", "OPS-5")
def test_the_printed_sql_may_be_applied_again(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Functions and views are replaced; the version that the database has is left out."""
    for after in (0, NEWEST):
        assert run_command(["db", "sql", "--database-url", url, "--after", str(after)]) == 0
        ask(url, capsys.readouterr().out)
    shown = status_of(url, capsys)
    assert (shown["expanded"], shown["outdated"]) == (NEWEST, [])


@pytest.mark.req("UPG-1")
@pytest.mark.parametrize("first", ["worker", "job", "job_list"])
async def test_a_migration_and_the_release_before_never_hold_each_other_up(url: str, first: str) -> None:
    """Its heartbeats and ticks write a row of a small table, and then the live one."""
    at_step_2(url)
    with psycopg.connect(url) as before:
        before.execute(f"DELETE FROM mainspring.{first}".encode())
        migration = asyncio.create_task(open_once(url))
        await until(lambda: ask(url, WAITING) != [(0,)] or migration.done())
        before.execute("SET lock_timeout = '5s'; DELETE FROM mainspring.live")
        before.commit()
    await migration


@pytest.mark.req("UPG-1")
async def test_nobody_queues_up_behind_a_migration_that_waits(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backup or report holds a table for long: those who write it go on, and the migration says what to do."""
    at_step_2(url)
    with psycopg.connect(url) as report:
        report.execute("SELECT * FROM mainspring.worker")
        migration = asyncio.create_task(open_once(url))
        await until(lambda: ask(url, WAITING) != [(0,)] or migration.done(), "the migration waits")
        beat = "INSERT INTO mainspring.worker (id, seen, info) VALUES ('w', 0, '{}')"
        await asyncio.to_thread(ask, url, f"SET lock_timeout = '5s'; {beat}")
        monkeypatch.setattr(migrate, "PATIENCE", 0.0)
        with pytest.raises(StoreError, match=r"the schema was not changed: .* and run `mainspring db migrate`"):
            await open_once(url)
    await migration


@pytest.mark.req("UPG-1")
async def test_a_contracting_step_waits_for_the_release_before_and_shuts_it_out(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(url) as store:
        before = WorkerInfo(id="w", host="here", pid=1, version="0.2.0", lease=3600)
        store.heartbeat(HeartbeatRequest(worker=before, leases=(), lease=30))
    monkeypatch.setattr(migrate, "STEPS", SchemaSteps(base=2, newest=5, oldest=4, contracts={5: "0.3.0"}))
    steps = [(4, "CREATE TABLE mainspring.new (n integer);"), (5, "DROP TABLE mainspring.new;")]
    monkeypatch.setattr(migrate, "versions", lambda schema: [*versions(schema), *steps])
    found = await schema.migrate(url)
    assert (found.required, found.expanded, found.pending, found.contracts) == (2, 4, [], [5])
    assert found.running == {"0.2.0": 1}
    with pytest.raises(ConfigurationError, match=r"worker w on here runs Mainspring 0\.2\.0, and step 5 takes away"):
        await schema.migrate(url, contract=True)
    store = PostgresStore(url, auto_migrate=False)  # the new release works on both sides of the step
    await store.open()
    await store.remove_worker("w")
    await store.close()
    found = await schema.migrate(url, contract=True)
    assert (found.required, found.expanded, found.pending, found.contracts) == (5, 5, [], [])
    assert ask(url, "SELECT to_regclass('mainspring.new')") == [(None,)]
    await store.open()
    await store.close()
    monkeypatch.undo()
    with pytest.raises(SchemaMismatch, match=f"is at 5, this release needs {NEWEST}"):
        await open_once(url)
