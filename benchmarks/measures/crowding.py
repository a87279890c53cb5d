"""Whether the rate of a drain depends on what else lies in the database: future, excluded, waiting or ended work."""

from __future__ import annotations

from typing import Any

import psycopg

from benchmarks.crew import Contestant, Crew, Failed
from benchmarks.measures.draining import drain_filled
from benchmarks.places import Place

AT_ONCE = 1_000_000
COLUMNS = """
    SELECT column_name FROM information_schema.columns
    WHERE table_schema = 'mainspring' AND table_name = %s ORDER BY ordinal_position
"""


def drain_in_a_crowd(
    contestant: Contestant, place: Place, items: int, kind: str, crowd: int, processes: int = 1
) -> dict[str, Any]:
    """All rounds share one database: the crowd is made by the first, and what is drained is added by each."""
    marker = place.folder / "crowded"
    if not marker.exists():
        contestant.ask("prepare", url=place.url)
        if crowd:
            _make(contestant, place, kind, crowd)
        marker.touch()
    contestant.ask("fill", url=place.url, items=items, variant="plain")
    place.settle()
    before = contestant.ask("state", url=place.url)["done"]
    return drain_filled(contestant, place, items, processes, before, keep=crowd if kind == "waiting" else 0)


def _make(contestant: Contestant, place: Place, kind: str, crowd: int) -> None:
    """One real row is made by Mainspring, and multiplied inside the database."""
    variant = {"future": "future", "excluded": "ahead"}.get(kind, "plain")
    contestant.ask("fill", url=place.url, items=1, variant=variant)
    table = "live"
    if kind == "ended":
        run_one(contestant, place)
        table = "history"
    with psycopg.connect(place.url, autocommit=True) as connection:
        for first in range(1, crowd + 1, AT_ONCE):
            multiply(connection, table, first, min(first + AT_ONCE - 1, crowd))
        [[found]] = connection.execute(f"SELECT count(*) FROM mainspring.{table}".encode()).fetchall()
    if found < crowd:
        raise Failed(f"{contestant.name}: the crowd is {found} rows instead of {crowd}")


def run_one(contestant: Contestant, place: Place) -> None:
    crew = Crew(contestant, place.url, 1, place.folder)
    try:
        crew.wait_until_ready()
        crew.go()
        crew.wait_for(1)
    finally:
        crew.stop()


def multiply(connection: psycopg.Connection[Any], table: str, first: int, last: int) -> None:
    """Copies of the newest row, a millisecond apart, with ids of their own; all columns, whatever they are."""
    names = [name for (name,) in connection.execute(COLUMNS, [table])]
    changed = {"id": "mainspring.new_id(o.created - n * 1000)", "created": "o.created - n * 1000"}
    values = ", ".join(changed.get(name, f"o.{name}") for name in names)
    text = (
        f"INSERT INTO mainspring.{table} ({', '.join(names)}) SELECT {values} "
        f"FROM (SELECT * FROM mainspring.{table} ORDER BY id DESC LIMIT 1) o, "
        f"generate_series({first}::bigint, {last}) n"
    )
    connection.execute(text.encode())
