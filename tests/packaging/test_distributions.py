"""What the wheel and the source distribution hold, and what their metadata say."""

from __future__ import annotations

import re
import subprocess
import tarfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement

from mainspring.version import VERSION
from tests.packaging.distributions import ROOT, Distributions, build

KINDS = {  # one file of each kind that is not Python
    "mainspring/py.typed",
    "mainspring/cli/starter/jobs.py.txt",
    "mainspring/contrib/django/templates/admin/mainspring/jobs_one.html",
    "mainspring/redis/lua/lock.lua",
    "mainspring/server/dashboard/static/dashboard.css",
    "mainspring/server/dashboard/templates/overview.html",
    "mainspring/stores/postgres/schema/functions/claim/claim_lane.sql",
    "mainspring/stores/sqlite/sql/claim.sql",
}
NEEDED = {  # what the targets of the Makefile read, apart from packages
    *("Makefile", "pyproject.toml", "constraints.txt", "LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md"),
    *("SECURITY.md", "ARCHITECTURE.md", "src/mainspring/version.py", "examples/demo.py", "scripts/check.py"),
}
EXTRAS = {"postgres", "mongo", "redis", "server", "mcp", "otel", "calendars", "uvloop"}
"""What users may ask for."""
DEVELOPERS = {"dev", "audit", "docs"}


def test_the_wheel_holds_every_file_of_the_packages_and_nothing_else(distributions: Distributions) -> None:
    source = ROOT / "src"
    present = {
        str(path.relative_to(source))
        for package in ("mainspring", "mainspring_pytest")
        for path in (source / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    held = distributions.wheel_files()
    about = f"mainspring-{VERSION}.dist-info/"
    assert {name for name in held if not name.startswith(about)} == present
    assert present >= KINDS
    assert held >= {
        f"{about}{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
    }


@pytest.mark.needs_tool("git")
def test_the_source_distribution_holds_what_is_under_version_control(distributions: Distributions) -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    tracked = {name for name in listed.split("\0") if (ROOT / name).is_file() and not name.startswith(".ci/")}
    held = distributions.sdist_files()
    assert tracked >= NEEDED
    assert tracked - held == set()
    ignored = re.compile(r"\.pyc$|\.db$|^(\.venv|\.git|\.bench|\.mypy_cache|build|dist|site)/")
    assert [name for name in held if ignored.search(name)] == []


def test_a_wheel_built_from_the_source_distribution_is_the_same_file(
    distributions: Distributions, tmp_path: Path
) -> None:
    with tarfile.open(distributions.sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    [source] = tmp_path.iterdir()
    build(source, tmp_path / "dist", "wheel")
    [wheel] = (tmp_path / "dist").iterdir()
    assert wheel.name == distributions.wheel.name
    assert wheel.read_bytes() == distributions.wheel.read_bytes()


def test_the_metadata_are_valid_and_complete(distributions: Distributions) -> None:
    found = Metadata.from_email(distributions.metadata(), validate=True)
    assert (found.name, str(found.version), str(found.requires_python)) == ("mainspring", VERSION, ">=3.11")
    assert (found.license_expression, found.license_files) == ("Apache-2.0", ["LICENSE"])
    assert found.summary
    assert found.classifiers is not None
    assert "Development Status :: 4 - Beta" in found.classifiers
    pythons = [name for name in found.classifiers if re.search(r":: 3\.\d+$", name)]
    assert pythons == [f"Programming Language :: Python :: 3.{minor}" for minor in range(11, 15)]
    assert set(found.provides_extra or []) == EXTRAS | DEVELOPERS


def test_the_description_has_no_links_that_a_package_index_cannot_follow(distributions: Distributions) -> None:
    found = Metadata.from_email(distributions.metadata(), validate=True)
    assert found.description_content_type == "text/markdown"
    assert found.description is not None
    assert found.description.startswith("# Mainspring\n")
    assert re.findall(r"\]\((?!https?:|#)[^)]*\)", found.description) == []
    assert "```python" in found.description


def test_every_dependency_is_pinned(distributions: Distributions) -> None:
    found = Metadata.from_email(distributions.metadata(), validate=True)
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = {plain(line.partition("==")[0]) for line in lines if "==" in line}
    backend = re.search(r"^requires = \[(.*?)\]", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert backend is not None
    needed = [*(found.requires_dist or []), *map(Requirement, re.findall(r'"(.*?)"', backend[1]))]
    assert sorted({plain(each.name) for each in needed} - pins) == []


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_changelog_begins_with_this_release() -> None:
    """Or with what is not released yet, and then this release."""
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    newest = headings[1] if headings[0] == "Unreleased" else headings[0]
    assert re.fullmatch(rf"{re.escape(VERSION)} \(\d{{4}}-\d\d-\d\d\)", newest), newest
