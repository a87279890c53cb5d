"""Remove each safeguard in turn and expect the tests to notice.

    make safeguards                     all of them
    python scripts/safeguards.py tick   those whose name contains "tick"

A safeguard is removed by small, exact substitutions in a temporary copy of the tree; the tree itself is never
touched. In the copy, seeds of the simulation, crash tests with real processes, integration tests and the conformance
suite are run, on memory and SQLite, until one of them goes red. Safeguards inside the PostgreSQL and the MongoDB store
are judged on these servers. Unit tests are never asked: a test of the very line would prove little.

A substitution that no longer matches exactly once, tests that are red before anything is removed, and a safeguard
whose removal nobody notices: each of these ends the run with code 1.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.store_safeguards import MONGO_SAFEGUARDS, POSTGRES_SAFEGUARDS, Edit, Safeguard  # noqa: E402

COPIED = ("src", "tests", "examples", "scripts", "docs", "pyproject.toml", "README.md")

SEEDS = 200
SEEDS_AT_ONCE = 20
PATIENCE = 300.0  # seconds for one judge: a removed safeguard may well make a test hang

SIMULATION = "simulation"  # the judge that runs seeds; every other one is something pytest can find
CONFORMANCE = "tests/conformance/test_memory.py tests/conformance/test_sqlite.py"
KILLS = "tests/crash/test_kills.py"
ZOMBIES = "tests/crash/test_zombies.py"
CLIENTS = "tests/crash/test_clients.py"
STOP = "tests/crash/test_stop.py"
ISOLATION = "tests/integration/processes/test_isolation.py"
LOST_REPLIES = "tests/crash/test_lost_replies.py"
FOLLOW_UPS = "tests/crash/test_follow_ups.py"
BACKFILLS = "tests/simulation/test_backfills.py"
FAN_OUT = "tests/simulation/test_fan_out.py"
DEPENDENCIES = "tests/simulation/test_dependencies.py"
ZOMBIE_THAT_HEARS = f"{ZOMBIES}::test_nothing_that_a_zombie_writes_is_accepted[sqlite-hears]"
DEAF_ZOMBIE = f"{ZOMBIES}::test_nothing_that_a_zombie_writes_is_accepted[sqlite-deaf]"


SCHEMA = "stores/sqlite/schema/tables.sql"
SETTLE = "applied = settle(tx, changes, ours)"
AS_SEEN = "(row.state, row.token, row.owner) == (change.expect, change.token, change.owner)"
NEW_ID = "follow_up_id(backfill_id, TRIGGER, str(position), str(id(object())))"
RENEWED_UNCHECKED = Edit(
    "stores/sqlite/executions/live.py",
    "{id: seq for id, token, seq in running if asked[id] == token}",
    "{id: seq for id, _, seq in running}",
)

SAFEGUARDS = (
    # --- the fence: what a worker without a lease writes changes nothing
    Safeguard(
        "token check on endings",
        (Edit("stores/common/rows.py", AS_SEEN, "(row.state, row.owner) == (change.expect, change.owner)"),),
        (LOST_REPLIES, SIMULATION),
    ),
    Safeguard(
        "owner check on endings",
        (Edit("stores/common/rows.py", AS_SEEN, "(row.state, row.token) == (change.expect, change.token)"),),
        (SIMULATION, CONFORMANCE),
    ),
    Safeguard(
        "fence on endings: token and owner",
        (Edit("stores/common/rows.py", AS_SEEN, "row.state == change.expect"),),
        (DEAF_ZOMBIE, SIMULATION),
    ),
    Safeguard(
        "fence on remembered rows (SQLite)",
        (
            Edit(
                "stores/sqlite/sql/history_move.sql",
                "WHERE live.owner = ? AND live.phase = 2 AND live.token = ended.token AND live.tail IS NULL"
                " AND live.cancel_requested IS NULL",
                "WHERE ? IS NOT NULL",
            ),
        ),
        (DEAF_ZOMBIE, CONFORMANCE),
    ),
    Safeguard(
        "token that grows with every claim",
        (Edit("stores/common/rows.py", "token=next_token(row.token, request.stamp),", "token=row.token,"),),
        (SIMULATION, CONFORMANCE),
    ),
    Safeguard(
        "fence on progress reports (SQLite)",
        (
            Edit(
                "stores/sqlite/executions/live.py",
                "(row.state, row.token, row.owner) != (State.RUNNING, report.token, report.owner)",
                "row.state is not State.RUNNING",
            ),
        ),
        (DEAF_ZOMBIE,),
    ),
    Safeguard(
        "fence on renewals (SQLite)",
        (Edit("stores/sqlite/sql/leases_held.sql", "AND owner = ?2", "AND ?2 IS NOT NULL"), RENEWED_UNCHECKED),
        (ZOMBIE_THAT_HEARS,),
    ),
    Safeguard("token check on renewals (SQLite)", (RENEWED_UNCHECKED,), (CONFORMANCE,)),
    Safeguard(
        "fence on renewals and progress reports (memory)",
        (
            Edit(
                "stores/memory/executions.py",
                "(row.state, row.token, row.owner) == (State.RUNNING, token, owner)",
                "row.state is State.RUNNING",
            ),
        ),
        (SIMULATION,),
    ),
    # --- isolated handlers
    Safeguard(
        "limit of memory, watched while a handler runs",
        (Edit("processes/watch.py", "if limit is not None and size > limit:", "if limit is not None and size < 0:"),),
        (f"{ISOLATION}::test_memory_and_cpu_are_measured_and_limited",),
    ),
    Safeguard(
        "guardian of what a killed worker leaves behind",
        (Edit("processes/guardian.py", "os.killpg(group, signal.SIGKILL)", "os.getpgid(group)"),),
        ("tests/crash/test_isolation.py::test_a_worker_that_is_killed_leaves_no_process",),
    ),
    # --- leases
    Safeguard(
        "rescue only what has expired",
        (Edit("stores/common/rows.py", "as_seen and (not change.rescue or lease_over(row, now))", "as_seen"),),
        (f"{ZOMBIES}::test_a_rescue_that_comes_after_the_renewal_changes_nothing", SIMULATION),
    ),
    Safeguard(
        "lease judged in store time, not by the janitor's clock",
        (
            Edit(
                "stores/common/rows.py",
                "not change.rescue or lease_over(row, now)",
                "not change.rescue or lease_over(row, change.at)",
            ),
            Edit(
                "core/engine/janitor.py",
                "expired = await self._store.expired(BATCH)",
                "from ..model.changes import ExecutionQuery\n"
                "            running_ones = ExecutionQuery(states=frozenset({State.RUNNING}), limit=BATCH)\n"
                "            running = await self._store.find(running_ones)\n"
                "            expired = [row for row in running if (row.lease or 0) <= self._clock.now()]",
            ),
            Edit(
                "core/engine/janitor.py",
                "now = await self._store.now() lost = one_by_one(",
                "now = self._clock.now()\n        lost = one_by_one(",
            ),
            Edit("core/store_clock.py", "if self._heard is None:", "if True:"),
        ),
        (SIMULATION,),
    ),
    Safeguard(
        "heartbeats from a thread of their own",
        (
            Edit(
                "core/engine/heartbeat.py",
                "self._beat(sent) self._nudge",
                "self._loop.call_soon_threadsafe(self._beat, sent)\n            self._nudge",
            ),
        ),
        ("tests/crash/test_long_runs.py",),
    ),
    Safeguard(
        "a worker that is cut off stops its handlers",
        (Edit("core/engine/heartbeat.py", "if not paused and self._silence.outlasts_lease():", "if False:"),),
        (f"{ZOMBIES}::test_a_worker_without_a_beat_for_a_lease_stops_its_own_handlers",),
    ),
    Safeguard(
        "a janitor that was paused gives others time for a beat",
        (Edit("core/engine/janitor.py", "return late or abs(", "return abs("),),
        (f"{ZOMBIES}::test_a_process_that_was_paused_does_not_rescue_from_itself",),
    ),
    Safeguard(
        "no handler begins on a lease that ran out by the monotonic clock",
        (Edit("core/engine/worker.py", "run.leased_until = leased + self._settings.lease", "pass"),),
        ("tests/integration/core/engine/test_late_starts.py",),
    ),
    Safeguard(
        "a repeated claim ends the hold of the earlier run",
        (Edit("core/engine/worker.py", "self._lose(self._runs[id])\n        self._prefetched.pop(id)", "pass"),),
        (SIMULATION, ZOMBIES),
    ),
    Safeguard(
        "only the lease of that very claim is given up",
        (
            Edit(
                "core/engine/heartbeat.py",
                "if self.held.get(execution.id) == execution.token:",
                "if execution.id in self.held:",
            ),
        ),
        (f"{ZOMBIES}::test_a_worker_that_claims_its_own_lost_execution_again_keeps_the_two_runs_apart", SIMULATION),
    ),
    # --- ticks
    Safeguard(
        "compare-and-set of a tick (SQLite)",
        (Edit("stores/sqlite/sql/job_update.sql", "AND version = ?19", "AND ?19 IS NOT NULL"),),
        ("tests/crash/test_schedulers.py",),
    ),
    Safeguard(
        "compare-and-set of a tick (memory)",
        (Edit("stores/memory/jobs.py", "if seen != expected:", "if (seen is None) != (expected is None):"),),
        (SIMULATION,),
    ),
    # --- the database
    Safeguard(
        "BEGIN IMMEDIATE",
        (Edit("stores/sqlite/threads/connect.py", '"BEGIN IMMEDIATE"', '"BEGIN"'),),
        (CLIENTS, KILLS),
    ),
    Safeguard(
        "unique index on unique keys (SQLite)",
        (Edit(SCHEMA, "CREATE UNIQUE INDEX mainspring_live_unique", "CREATE INDEX mainspring_live_unique"),),
        (f"{CLIENTS}::test_a_key_wanted_by_many_processes_is_given_once",),
    ),
    Safeguard(
        "unique index on overlap keys (SQLite)",
        (Edit(SCHEMA, "CREATE UNIQUE INDEX mainspring_live_overlap", "CREATE INDEX mainspring_live_overlap"),),
        (f"{CLIENTS}::test_a_job_that_may_not_overlap_runs_once_whoever_triggers_it",),
    ),
    Safeguard(
        "running keys are checked at pick-up (memory)",
        (Edit("stores/memory/live.py", "holder = self._conflict(row) if row.staged else None", "holder = None"),),
        (SIMULATION,),
    ),
    Safeguard(
        "settle, then claim (SQLite)",
        (
            Edit(
                "stores/sqlite/executions/claim.py",
                "applied = settle(tx, changes, ours)",
                "applied: tuple[bool, ...] = ()",
            ),
            Edit("stores/sqlite/executions/claim.py", "if request is None:", f"if request is None:\n        {SETTLE}"),
            Edit("stores/sqlite/executions/claim.py", "claim.take()", f"claim.take()\n    {SETTLE}"),
        ),
        (CONFORMANCE,),
    ),
    # --- jobs after jobs
    Safeguard(
        "hand-over: what follows known by its parents",
        (
            Edit(
                "core/dependencies/rules.py",
                "DEPENDENCY, job.id, *ids)",
                "DEPENDENCY, job.id, *ids, str(id(object())))",
            ),
        ),
        (DEPENDENCIES,),
    ),
    Safeguard(
        "hand-over: endings of several parents entered by compare-and-set",
        (
            Edit(
                "core/dependencies/joins.py", "EntryWrite(entry=entry, seen_version=version)", "EntryWrite(entry=entry)"
            ),
        ),
        (DEPENDENCIES,),
    ),
    Safeguard(
        "hand-over: a skip that is passed on keeps its mark until it is",
        (Edit("core/dependencies/rules.py", '"todo": feeds', '"todo": False'),),
        (DEPENDENCIES,),
    ),
    Safeguard(
        "hand-over: the same tenants, listed before the execution is there",
        (
            Edit(
                "core/dependencies/hand_over.py",
                "decided = await rosters.create(store, row, names, writer_of(names), now)",
                "return row",
            ),
        ),
        (f"{DEPENDENCIES[:-3]}_of_tenants.py",),
    ),
    # --- windows and backfills
    Safeguard(
        "rows of a backfill known by their place in it",
        (Edit("core/backfills/rules.py", "follow_up_id(backfill_id, TRIGGER, str(position))", NEW_ID),),
        (BACKFILLS,),
    ),
    Safeguard(
        "room counted by what is in flight",
        (Edit("core/backfills/rules.py", "backfill.concurrency - backfill.running,", "backfill.concurrency,"),),
        (BACKFILLS,),
    ),
    Safeguard(
        "places of a cancelled backfill that nobody can take any more",
        (Edit("core/backfills/driver.py", "range(record.position, last)", "range(0)"),),
        (BACKFILLS,),
    ),
    Safeguard(
        "endings entered in the ledger once",
        (Edit("core/rules/window_ledger.py", "if execution.id in known.ids:", "if execution.id in ():"),),
        (BACKFILLS,),
    ),
    # --- tenants
    Safeguard(
        "a list of tenants that was stored is used again",
        (Edit("core/tenants/fan_out.py", "known = await rosters.stored(self._store, parent.id)", "known = None"),),
        (FAN_OUT,),
    ),
    Safeguard(
        "the first list of tenants counts",
        (
            Edit(
                "core/tenants/rosters.py",
                "key=HEADER, body=_body(known)), seen_version=0)",
                "key=HEADER, body=_body(known)))",
            ),
        ),
        (FAN_OUT,),
    ),
    Safeguard(
        "a parent that was cancelled leaves no tenant without a record",
        (
            Edit(
                "core/tenants/endings.py",
                "if sum((await store.children(parent.id)).values()) < known.total:",
                "if False:",
            ),
        ),
        (FAN_OUT,),
    ),
    Safeguard(
        "tenants that ended before their parent began to wait are noticed",
        (
            Edit(
                "core/tenants/endings.py",
                "if await settle_parent(store, parent_id, now, emit):\n        return True",
                "",
            ),
        ),
        (FAN_OUT,),
    ),
    # --- follow-ups
    Safeguard(
        "follow-up mark",
        (Edit("core/rules/transitions.py", "if to.final and needs_follow_up(execution):", "if False:"),),
        (FOLLOW_UPS, SIMULATION),
    ),
    Safeguard(
        "the mark is cleared after the follow-ups, not before",
        (
            Edit(
                "core/engine/follow_ups.py",
                "self._once_more |= await _follow_up(self._store, execution, probed, now, self._emit)",
                "await self._store.todo_done([execution.id])\n"
                "                self._once_more |= await _follow_up(self._store, execution, probed, now, self._emit)",
            ),
        ),
        (SIMULATION,),
    ),
    # --- stopping, and payloads that kill
    Safeguard(
        "no claim while draining",
        (Edit("core/engine/worker.py", "if self._draining or self._cut_off", "if self._cut_off"),),
        (f"{STOP}::test_ten_long_handlers_come_back_uncounted",),
    ),
    Safeguard(
        "watchdog over a stop",
        (Edit("app/process.py", "start_watchdog(self._stop_timeout)", "pass"),),
        (f"{STOP}::test_a_handler_that_blocks_the_event_loop_for_good_does_not_keep_the_process",),
    ),
    Safeguard(
        "what crashed twice runs alone",
        (Edit("core/rules/transitions.py", "alone=crashes >= ALONE_AFTER", "alone=False"),),
        (SIMULATION, "tests/crash/test_poison.py"),
    ),
    *POSTGRES_SAFEGUARDS,
    *MONGO_SAFEGUARDS,
)


class Copy:
    """A copy of the tree in which safeguards are removed and put back."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.db*"))
            elif source.exists():
                shutil.copy(source, folder / name)
        self._environment = os.environ | {"PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}

    def judge(self, safeguard: Safeguard) -> tuple[str | None, float]:
        """What goes red without it, and after how many seconds."""
        without = safeguard.texts(self.root)
        originals = {file: file.read_text() for file in without}
        began = time.monotonic()
        try:
            for file, text in without.items():
                file.write_text(text)
            found = (self.first_red(judge) for judge in safeguard.judges)
            red = next((name for name in found if name is not None), None)
        finally:
            for file, text in originals.items():
                file.write_text(text)
        return red, time.monotonic() - began

    def first_red(self, judge: str) -> str | None:
        """The first test or seed that this judge finds red; None when all is green."""
        return self._red_seed() if judge == SIMULATION else self._red_test(judge)

    def _red_seed(self) -> str | None:
        for first in range(0, SEEDS, SEEDS_AT_ONCE):
            arguments = ["--seed", str(first), "--count", str(SEEDS_AT_ONCE)]
            done = self._run("tests.simulator", *arguments)
            if done is None:
                return f"{SIMULATION}: seeds {first} to {first + SEEDS_AT_ONCE - 1} came to no end"
            if done.returncode != 0:
                found = re.search(r"seed (\d+).*", done.stdout)
                return f"{SIMULATION}: {found[0] if found else done.stdout.strip()[-200:]}"
        return None

    def _red_test(self, judge: str) -> str | None:
        on_a_server = "postgres" in judge or "mongo" in judge
        chosen = () if on_a_server else ("-k", "not postgres and not mongo")
        done = self._run("pytest", "-x", "-q", "-rfE", "-p", "no:cacheprovider", *chosen, *judge.split())
        if done is None:
            return f"{judge} (came to no end)"
        if done.returncode == 0:
            return None
        found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - (.+))?$", done.stdout, re.MULTILINE)
        if done.returncode != 1 or found is None:
            raise SystemExit(f"pytest could not judge {judge} (code {done.returncode}):\n{done.stdout[-3000:]}")
        return found[1]

    def _run(self, module: str, *arguments: str) -> subprocess.CompletedProcess[str] | None:
        """None when it had to be ended."""
        command = [sys.executable, "-m", module, *arguments]
        options = {"cwd": self.root, "env": self._environment, "text": True, "stderr": subprocess.STDOUT}
        try:
            return subprocess.run(command, stdout=subprocess.PIPE, timeout=PATIENCE, check=False, **options)
        except subprocess.TimeoutExpired:
            return None

    def check_itself(self) -> None:
        """The copy must be what is tested, not the tree or an installed package."""
        command = [sys.executable, "-c", "import mainspring; print(mainspring.__file__)"]
        where = subprocess.check_output(command, cwd=self.root, env=self._environment, text=True)
        if not where.startswith(str(self.root)):
            raise SystemExit(f"the copy is not what is imported, but {where.strip()}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only safeguards whose name contains one of these")
    parser.add_argument("--skip-baseline", action="store_true", help="do not check first that all judges are green")
    arguments = parser.parse_args()
    chosen = [each for each in SAFEGUARDS if not arguments.names or any(word in each.name for word in arguments.names)]
    if not chosen:
        parser.error(f"no safeguard is called like that; there are: {', '.join(each.name for each in SAFEGUARDS)}")

    for each in chosen:
        each.texts(ROOT)  # says so before anything is run if the code has moved
    with tempfile.TemporaryDirectory(prefix="mainspring-safeguards-") as folder:
        copy = Copy(Path(folder).resolve())
        copy.check_itself()
        if not arguments.skip_baseline:
            for judge in dict.fromkeys(judge for each in chosen for judge in each.judges):
                if red := copy.first_red(judge):
                    raise SystemExit(f"red before anything was removed: {red}")
        say("safeguard", "removed in", "went red", "time")
        survived = 0
        for each in chosen:
            red, seconds = copy.judge(each)
            survived += red is None
            say(each.name, each.files, red or "NOTHING: nobody noticed", f"{seconds:.0f} s")
    print(f"{len(chosen) - survived} noticed, {survived} survived")
    return 1 if survived else 0


def say(name: str, files: str, red: str, seconds: str) -> None:
    print(f"{name:<56} | {files:<42} | {red} | {seconds}", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ValueError as error:
        sys.exit(f"safeguards: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
