"""Every Python block of the documentation runs, in the order of its page."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from mainspring.cli.root import root
from mainspring.model.policies import RETRY_PRESETS as PRESETS
from mainspring.model.windows import NAMES as WINDOWS
from tests.docs.blocks import ALL
from tests.docs.table import covered_elsewhere

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
CODE: dict[str, list[str]] = {}
for block in ALL:
    if block.language == "python" and block.page != "README.md" and not covered_elsewhere(block):
        CODE.setdefault(block.page, []).append(block.text)


@pytest.mark.parametrize("page", CODE)
def test_the_blocks_of_a_page_run(page: str, scripts: subprocess.Popen[str], tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text("\n".join(CODE[page]))
    assert scripts.stdin is not None
    assert scripts.stdout is not None
    scripts.stdin.write(f"{script}\n")
    scripts.stdin.flush()
    assert scripts.stdout.readline() == "0\n", script.with_suffix(".log").read_text()


@pytest.fixture(scope="module")
def scripts() -> Iterator[subprocess.Popen[str]]:
    """Runs the scripts whose paths are written to it."""
    program = [sys.executable, Path(__file__).parent / "forked_pages.py"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


def test_the_quickstart_works_as_pasted(tmp_path: Path) -> None:
    """Saved as jobs.py, stopped after its first runs as Ctrl-C would."""
    (quickstart,) = BLOCK.findall((ROOT / "README.md").read_text())
    assert 'if __name__ == "__main__":' in quickstart
    (tmp_path / "jobs.py").write_text(quickstart)
    program = [sys.executable, "-u", "jobs.py"]
    with subprocess.Popen(program, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "reminding 42 attempt 1" in process.stdout.readline()
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in errors) == (0, False), errors


def test_links_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_files_named_in_the_architecture_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    packages = "admin|app|cli|config|core|model|observe|redis|server|stores|testing"
    names = set(re.findall(rf"`((?:{packages})/[\w/]+(?:\.py|\.sql|/))", text))
    assert len(names) > 40, "the page names its places as `package/module.py`"
    for name in names:
        assert (ROOT / "src" / "mainspring" / name).exists(), name
    for package in (ROOT / "src" / "mainspring").glob("*/__init__.py"):
        assert f"`{package.parent.name}/`" in text, f"the page does not introduce {package.parent.name}"
    for package in (ROOT / "src" / "mainspring" / "core").glob("*/__init__.py"):
        assert f"`core/{package.parent.name}/`" in text, f"the page does not introduce core/{package.parent.name}"
    assert len(text.splitlines()) <= 200


def test_the_tables_of_settings_and_job_options_are_what_the_code_says() -> None:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import doc_tables
    finally:
        sys.path.pop(0)
    for name, (page, _) in doc_tables.TABLES.items():
        assert doc_tables.rendered(name) == page.read_text(), "run: python scripts/doc_tables.py"


def test_the_guide_names_every_window_and_preset() -> None:
    guide = (ROOT / "docs" / "guide.md").read_text()
    assert [name for name in WINDOWS if f'`"{name}"`' not in guide] == []
    assert [name for name in PRESETS if f'`"{name}"`' not in guide] == []


def test_the_page_of_the_command_line_names_every_command_and_option() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    for path, command in commands(root):
        assert f"mainspring {path}" in page
        for option in (item for item in command.params if isinstance(item, click.Option) and not item.hidden):
            assert any(name in page for name in option.opts), f"{path} {option.opts}"


def commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command
