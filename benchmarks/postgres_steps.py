"""What claiming and settling cost the PostgreSQL server alone, timed inside it: for work on these functions.

    python -m benchmarks.postgres_steps [--version 18] [--batch 100] [--rows 5000] [--rounds 5] [--patch changed.sql]

Steps of a millisecond are rarely interrupted, so that the quickest tenth of them says the same on a busy machine as on
a quiet one, where figures of whole drains differ by a half. With --patch, the schema with that file applied (made for
the schema "mainspring", as migrations are) takes turns with the one without. The table is vacuumed once per round: with
many rows, claims walk over what is left of those claimed before.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import psycopg

from benchmarks.postgres_store import OWNER, execution
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.store.messages import JobWrite
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.postgres.statements import in_schema
from tests.servers import new_postgres

AT_ONCE = 10  # exchanges of one schema before it is the other's turn
SETTINGS = ("plan_cache_mode = force_generic_plan", "enable_seqscan = off", "enable_bitmapscan = off", "jit = off")

TIMINGS = "CREATE TABLE timings (schema text, settle double precision, claim double precision)"
EXCHANGES = """
    DO $do$
    DECLARE
        now bigint;
        ids uuid[];
        each CONSTANT integer[] := ARRAY[{batch}];
        completed mainspring.completions;
        began timestamptz;
        settled timestamptz;
        claimed timestamptz;
        count integer;
    BEGIN
        FOR n IN 1..{at_once} LOOP
            SELECT array_agg(x.id ORDER BY x.id) INTO ids
            FROM (SELECT l.id FROM mainspring.live l WHERE l.phase >= 2 LIMIT {batch}) x;
            now := mainspring.now_micros();
            completed := ROW(
                ids, '{{1}}', '{owner}', array_fill(now, each), array_fill(now - 10, each),
                array_fill(0.021::double precision, each), NULL
            )::mainspring.completions;
            began := clock_timestamp();
            PERFORM mainspring.exchange(completed, NULL::mainspring.changes, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
            settled := clock_timestamp();
            SELECT e.taken INTO count
            FROM mainspring.exchange(
                NULL::mainspring.completions, NULL::mainspring.changes, '{owner}', '{{noop}}', NULL, 30000000, {batch},
                0, false
            ) e;
            claimed := clock_timestamp();
            COMMIT;
            INSERT INTO timings SELECT split_part('mainspring.', '.', 1), extract(epoch FROM settled - began) * 1e6,
                extract(epoch FROM claimed - settled) * 1e6
            WHERE count = {batch} AND cardinality(ids) = {batch};
            COMMIT;
        END LOOP;
    END
    $do$
"""


async def run(version: str, batch: int, rows: int, rounds: int, patch: str | None) -> None:
    server = new_postgres(version, fsync="off", full_page_writes="on")
    server.start()
    url = server.new_database()
    stores = {name: PostgresStore(url, schema=name) for name in ("mainspring", *(["patched"] if patch else []))}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(TIMINGS)
        for setting in (*SETTINGS, "enable_nestloop = off"):
            connection.execute(f"SET {setting}".encode())
        for name, store in stores.items():
            await store.open()
            job = Job(name="noop", id="0199-job", declared=encode_spec(JobSpec(handler="noop")))
            await store.write_jobs([JobWrite(job=job, seen_version=None)])
            if patch and name == "patched":
                connection.execute(in_schema(patch, name).encode())
        text = EXCHANGES.format(at_once=AT_ONCE, batch=batch, owner=OWNER)
        for _ in range(rounds):
            for name, store in stores.items():
                await store.add([execution() for _ in range(rows)])
                connection.execute(f"VACUUM {name}.live".encode())
            for _ in range(rows // batch // AT_ONCE):
                for name in stores:
                    connection.execute(in_schema(text, name).encode())
        for name, store in stores.items():
            found = connection.execute("SELECT settle, claim FROM timings WHERE schema = %s", (name,)).fetchall()
            print(f"{name:12} {len(found)} exchanges, microseconds per execution:")
            for step, times in zip(("settle", "claim"), zip(*found, strict=True), strict=True):
                print(f"    {step:8} " + ", ".join(shown(sorted(times), share, batch) for share in (0.1, 0.25, 0.5)))
            await store.close()


def shown(times: list[float], share: float, batch: int) -> str:
    return f"{share:.0%} below {times[int(len(times) * share)] / batch:.2f}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--version", default="18")
    arguments.add_argument("--batch", type=int, default=100)
    arguments.add_argument("--rows", type=int, default=5_000)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--patch", type=Path)
    given = arguments.parse_args()
    patch = given.patch.read_text() if given.patch else None
    asyncio.run(run(given.version, given.batch, given.rows, given.rounds, patch))


if __name__ == "__main__":
    main()
