"""A damaged schema: each difference is named, and the statements of the repair leave none."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from mainspring.admin import schema
from mainspring.core.doctor.schema_diff import differences, repair_script
from mainspring.model.errors import StoreError
from mainspring.model.store.inspection import SchemaObjects
from mainspring.stores.mongo import inspect as mongo_inspect
from mainspring.stores.postgres import inspect as postgres_inspect
from mainspring.stores.sqlite import inspect as sqlite_inspect
from tests.mongo_server import mongo
from tests.servers import postgres, postgres_versions


def words(objects: SchemaObjects) -> set[str]:
    return {each.words for each in differences(objects)}


def uncommented(script: str, comment: str) -> str:
    """With the statements about what may hold data, which an administrator runs by hand."""
    return script.replace(f"{comment} ", "")


# --- SQLite -----------------------------------------------------------------------------------------------------------

ON_SQLITE = {
    "DROP INDEX mainspring_jobs_due": "index mainspring_jobs_due is missing",
    "DROP VIEW mainspring_job_labels": "view mainspring_job_labels is missing",
    "DROP TRIGGER mainspring_executions_deleted": "trigger mainspring_executions_deleted is missing",
    "ALTER TABLE mainspring_logs DROP COLUMN logger": "column mainspring_logs.logger is missing",
    "ALTER TABLE mainspring_workers ADD COLUMN mine TEXT": "column mainspring_workers.mine is not part of Mainspring",
    "CREATE TABLE mainspring_mine (a)": "table mainspring_mine is not part of Mainspring",
    "CREATE INDEX mine ON mainspring_jobs (release)": "index mine is not part of Mainspring",
    "CREATE TRIGGER spy AFTER DELETE ON mainspring_jobs BEGIN SELECT 1; END": "trigger spy is not part of Mainspring",
    "DROP TABLE mainspring_locks": "table mainspring_locks is missing",
    "UPDATE sqlite_schema SET sql = replace(sql, 'message      TEXT', 'message TEXT DEFAULT 7')": "column"
    " mainspring_logs.message is TEXT NOT NULL DEFAULT 7, expected TEXT NOT NULL",
}


@pytest.mark.req("DEV-2")
async def test_a_damaged_file_is_repaired_by_the_statements(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    await schema.migrate(f"sqlite:///{path}")
    assert words(sqlite_inspect.schema_objects(str(path))) == set()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("INSERT INTO mainspring_workers VALUES ('w1', 7, '{}')")
        connection.execute("PRAGMA writable_schema = ON")
        for statement in ON_SQLITE:
            connection.execute(statement)
    found = sqlite_inspect.schema_objects(str(path))
    assert words(found) == set(ON_SQLITE.values())
    script = repair_script(found, differences(found))
    assert "-- DROP TABLE IF EXISTS mainspring_mine;" in script.splitlines()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(uncommented(script, "--"))
        assert connection.execute("SELECT * FROM mainspring_workers").fetchall() == [("w1", 7, "{}")]
    assert words(sqlite_inspect.schema_objects(str(path))) == set()


def test_the_kind_of_a_file_system_is_read_from_the_mounts(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("/dev/sda1 / ext4 rw 0 0\nserver:/export /srv/jobs\\040here nfs4 rw 0 0\n")
    assert sqlite_inspect.filesystem_of("/srv/jobs here/deep", str(mounts)) == "nfs4"
    assert sqlite_inspect.filesystem_of("/srv/jobs", str(mounts)) == "ext4"
    assert sqlite_inspect.filesystem_of("/srv", str(tmp_path / "none")) == ""


# --- PostgreSQL -------------------------------------------------------------------------------------------------------

ON_POSTGRES = {
    "DROP INDEX mainspring.job_due": "index job_due is missing",
    "DROP INDEX mainspring.audit_target; CREATE INDEX audit_target ON mainspring.audit (id)": "index audit_target has"
    " another definition than in this release",
    "CREATE INDEX my_own ON mainspring.audit (actor)": "index my_own is not part of Mainspring",
    "ALTER TABLE mainspring.live ALTER COLUMN token SET DEFAULT 7": "default live.token is 7, expected 0",
    "ALTER TABLE mainspring.live ALTER COLUMN failures DROP DEFAULT": "default live.failures is missing",
    "ALTER TABLE mainspring.lock ALTER owner DROP NOT NULL": "not null lock.owner is missing",
    "DROP VIEW mainspring.locks; ALTER TABLE mainspring.lock ALTER owner TYPE varchar(99)": "column lock.owner is"
    " character varying(99), expected text",
    "CREATE VIEW mainspring.locks AS SELECT name, owner FROM mainspring.lock": "view locks has another definition than"
    " in this release",
    "ALTER TABLE mainspring.meta ALTER value TYPE numeric": "column meta.value is numeric, expected bigint",
    "ALTER TABLE mainspring.log DROP COLUMN logger": "column log.logger is missing",
    "ALTER TABLE mainspring.worker ADD COLUMN mine text": "column worker.mine is not part of Mainspring",
    "ALTER TABLE mainspring.lock DROP CONSTRAINT lock_pkey": "constraint lock.lock_pkey is missing",
    "ALTER TABLE mainspring.audit ADD CONSTRAINT my CHECK (at > 0)": "constraint audit.my is not part of Mainspring",
    "ALTER TABLE mainspring.live RESET (fillfactor)": "setting live fillfactor is missing",
    "ALTER TABLE mainspring.live SET (autovacuum_enabled = false)": "setting live autovacuum_enabled is not part of"
    " Mainspring",
    "DROP TABLE mainspring.purge": "table purge is missing",
    "DROP TABLE mainspring.label CASCADE": "table label is missing",
    "CREATE TABLE mainspring.mine (a int)": "table mine is not part of Mainspring",
    "DROP SEQUENCE mainspring.lock_token": "sequence lock_token is missing",
    "DROP FUNCTION mainspring.keep_partitions()": "function keep_partitions() returning boolean is missing",
    "CREATE OR REPLACE FUNCTION mainspring.now_micros() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'": "function"
    " now_micros() returning bigint has another definition than in this release",
    "DROP VIEW mainspring.jobs": "view jobs is missing",
    "CREATE FUNCTION mainspring.spy() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'": "function"
    " spy() returning trigger is not part of Mainspring",
    "CREATE TRIGGER spy BEFORE INSERT ON mainspring.live FOR EACH ROW EXECUTE FUNCTION mainspring.spy()": "trigger"
    " live.spy is not part of Mainspring",
}
AS_A_CONSEQUENCE = {"view search_keys is missing"}  # of the table that was dropped with CASCADE


@pytest.mark.req("DEV-2")
@pytest.mark.parametrize("version", postgres_versions())
async def test_a_damaged_schema_is_repaired_by_the_statements(version: str) -> None:
    server = postgres(version)
    url = server.migrated_database()
    name = url.rpartition("/")[2]
    assert words(await postgres_inspect.schema_objects(url)) == set()
    for statement in ON_POSTGRES:
        server.execute(statement, name)
    found = await postgres_inspect.schema_objects(url)
    assert words(found) == set(ON_POSTGRES.values()) | AS_A_CONSEQUENCE
    script = repair_script(found, differences(found))
    assert "-- DROP TABLE mainspring.mine;" in script.splitlines()
    server.execute(uncommented(script, "--"), name)
    assert words(await postgres_inspect.schema_objects(url)) == set()


@pytest.mark.req("DEV-2")
async def test_a_role_that_may_not_create_a_schema_is_told_so() -> None:
    server = postgres()
    url = server.migrated_database()
    name = url.rpartition("/")[2]
    role = f"reader_of_{name}"
    server.execute(f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA mainspring TO {role}", name)
    with pytest.raises(StoreError, match=r"permission denied for database .*grant the rights"):
        await postgres_inspect.schema_objects(url.replace("postgres@", f"{role}@"))


# --- MongoDB ----------------------------------------------------------------------------------------------------------


@pytest.mark.req("DEV-2")
async def test_damaged_collections_are_repaired_by_the_commands() -> None:
    server = mongo("standalone")
    url = server.new_database()
    await schema.migrate(url)
    assert words(await mongo_inspect.schema_objects(url)) == set()
    with server.client() as client:
        database = client.get_database(url.rpartition("/")[2])
        database["mainspring.executions"].drop_index("ready")
        database["mainspring.executions"].create_index("mine", name="mine")
        database["mainspring.jobs"].drop_index("due")
        database["mainspring.jobs"].create_index("due", name="due")
        database["mainspring.locks"].drop()
        database["mainspring.mine"].insert_one({})
        database.command("collMod", "mainspring.audits", validator={"at": {"$exists": True}})
        found = await mongo_inspect.schema_objects(url)
        assert {each.partition(" is ")[0] for each in words(found)} == {
            "index mainspring.executions ready",
            "index mainspring.executions mine",
            "index mainspring.jobs due has another definition than in this release",
            "collection mainspring.locks",
            "collection mainspring.mine",
            "collection mainspring.audits has another definition than in this release",
        }
        script = repair_script(found, differences(found))
        assert '// db.runCommand({"drop": "mainspring.mine"})' in script.splitlines()
        for command in _commands(uncommented(script, "//").splitlines()):
            database.command(command)
    assert words(await mongo_inspect.schema_objects(url)) == set()


def _commands(lines: Iterable[str]) -> list[dict[str, object]]:
    return [json.loads(line.removeprefix("db.runCommand(").removesuffix(")")) for line in lines]
