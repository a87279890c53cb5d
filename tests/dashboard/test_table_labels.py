"""Cells of tables carry the headings of their columns, which a phone shows beside them."""

from __future__ import annotations

import pytest

from mainspring.server.dashboard.table_labels import label_cells

HEAD = '<table><thead><tr><th></th><th><a href="?sort=-name">job ↑</a></th><th class="n">runs</th></tr></thead>'


@pytest.mark.req("DSH-1")
def test_cells_carry_the_headings_of_their_columns() -> None:
    page = label_cells(
        f'{HEAD}<tbody><tr id="a"><td>x</td><td class="name">a &lt;td></td><td>3</td></tr></tbody></table>'
    )
    assert '<tr id="a"><td>x</td><td data-label="job" class="name">a &lt;td></td><td data-label="runs">3</td>' in page


@pytest.mark.req("DSH-1")
def test_empty_cells_are_quite_empty_and_every_row_begins_anew() -> None:
    rows = "<tr><td>x</td><td>\n  </td></tr><tr><td>y</td><td>b</td></tr>"
    page = label_cells(f"{HEAD}<tbody>{rows}</tbody></table>")
    assert "<td>x</td><td></td></tr>" in page
    assert '<td>y</td><td data-label="job">b</td>' in page
    own = label_cells(f'{HEAD}<tbody><tr><td>x</td><td data-label="due">b</td><td>3</td></tr></tbody></table>')
    assert '<td data-label="due">b</td><td data-label="runs">3</td>' in own


@pytest.mark.req("DSH-1")
def test_tables_with_a_layout_of_their_own_stay_as_they_are() -> None:
    for table in (
        "<table><tbody><tr><td>x</td></tr></tbody></table>",
        HEAD.replace("<table>", '<table class="plain">'),
    ):
        assert label_cells(table) == table
