"""The tables of docs/time.md are what the code does."""

from __future__ import annotations

from scripts import dst_table


def test_the_tables_of_clock_changes_are_up_to_date():
    page = dst_table.PAGE.read_text(encoding="utf-8")
    assert dst_table.rendered(page) == page, "run: python scripts/dst_table.py"


def test_every_policy_zone_and_expression_is_in_the_tables():
    page = dst_table.PAGE.read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith(tuple(f"| {zone}, " for zone in dst_table.ZONES))]
    assert len(rows) == 2 * len(dst_table.ZONES) * len(dst_table.EXPRESSIONS)
    for name in ("at_end", "shift", "skip", "first", "second", "both"):
        assert f"| `{name}`" in page
    assert (
        "| Europe/Berlin, 29 March: 02:00 becomes 03:00 | `30 2 * * *` | 03:00 (+02:00) | 03:30 (+02:00) | no run |"
        in rows
    )
