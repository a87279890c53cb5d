"""Writes the tables in the documentation that follow from the code: `python scripts/doc_tables.py`.

Job options go to docs/guide.md; a test compares the table with the code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from mainspring.core.declaring.options import OPTIONS

DOCS = Path(__file__).parent.parent / "docs"


def options_table() -> Iterator[str]:
    yield "| option | default | meaning |\n|---|---|---|\n"
    for option in OPTIONS.values():
        yield f"| `{option.name}` | {option.default_text} | {option.meaning}{option.see} |\n"


TABLES: dict[str, tuple[Path, Callable[[], Iterator[str]]]] = {
    "options": (DOCS / "guide.md", options_table),
}


def rendered(name: str) -> str:
    """The page with a fresh table in the place of the old one."""
    page, table = TABLES[name]
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    return re.sub(f"(?s){begin}.*{end}", lambda _: begin + "".join(table()) + end, page.read_text())


if __name__ == "__main__":
    for name, (page, _) in TABLES.items():
        page.write_text(rendered(name))
