"""What was measured, as JSON under `.bench/results`: one file for each measure, so that a run may be done in parts."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.environments import BENCH
from benchmarks.measures.plan import Measure, Plan
from benchmarks.rounds import Row

FOLDER = BENCH / "results"


def save(measure: Measure, plan: Plan, rows: list[Row], seconds: float, folder: Path | None = None) -> None:
    """Rows that were left out this time stay as they were, unless they are of the other kind of run."""
    folder = folder or FOLDER / kind(plan.quick)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{measure.name}.json"
    new = {row["label"] for row in rows}
    older = [row for row in load_one(path)["rows"] if row["label"] not in new] if path.exists() else []
    order = [entry.label for entry in measure.entries]
    found = sorted((row for row in [*rows, *older] if row["label"] in order), key=lambda row: order.index(row["label"]))
    content = {
        "measure": measure.name,
        "quick": plan.quick,
        "machine": machine(plan),
        "seconds": seconds,
        "rows": found,
    }
    path.write_text(json.dumps(content, indent=1))


def load(folder: Path) -> dict[str, dict[str, Any]]:
    return {content["measure"]: content for content in map(load_one, sorted(folder.glob("*.json")))}


def load_one(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def kind(quick: bool) -> str:
    return "quick" if quick else "full"


def machine(plan: Plan) -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": platform.system(),
        "postgres": _postgres_version(plan.postgres),
        "sqlite": sqlite3.sqlite_version,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "optimised": sys.flags.optimize,
    }


def _postgres_version(version: str) -> str:
    from benchmarks import servers

    [[text]] = servers.postgres(version).execute("SHOW server_version")
    return str(text).split()[0]
