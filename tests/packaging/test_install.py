"""The wheel, installed into an environment that has nothing but what it asks for."""

from __future__ import annotations

import subprocess
import sys
import venv
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.metadata import Metadata
from packaging.requirements import Requirement

from tests.packaging.distributions import Distributions
from tests.packaging.walk import Environment, walk, walk_with_server, walk_without_extras


def environment(folder: Path, distributions: Distributions, extras: set[str]) -> Environment:
    """A new environment with the wheel and its dependencies of these extras. They are linked from the environment of
    the tests, so that this takes no download and a second."""
    place = folder / "environment"
    venv.create(place, symlinks=True)
    command = [sys.executable, "-m", "pip", "--python", str(place / "bin" / "python"), "install", "-q", "--no-compile"]
    subprocess.run([*command, "--no-deps", "--no-index", str(distributions.wheel)], check=True)
    [packages] = place.glob("lib/*/site-packages")
    for each in closure(Metadata.from_email(distributions.metadata()).requires_dist or [], extras):
        link(each, packages)
    work = folder / "work"
    work.mkdir()
    return Environment(place, work)


def closure(requirements: list[Requirement], extras: set[str]) -> list[Distribution]:
    found: dict[str, Distribution] = {}
    asked = [(each, extras) for each in requirements]
    while asked:
        requirement, wanted = asked.pop()
        if requirement.marker and not any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *wanted)):
            continue
        if (key := str(requirement)) not in found:
            found[key] = distribution(requirement.name)
            asked += [(Requirement(text), requirement.extras) for text in found[key].requires or []]
    return list(found.values())


def link(dependency: Distribution, packages: Path) -> None:
    """Each folder and file that it has directly among the packages."""
    for name in {path.parts[0] for path in dependency.files or [] if path.parts[0] not in ("..", "__pycache__")}:
        target = packages / name
        if not target.is_symlink():
            target.symlink_to(Path(str(dependency.locate_file(name))))


def test_it_works_alone_and_names_the_extra_for_what_needs_one(distributions: Distributions, tmp_path: Path) -> None:
    here = environment(tmp_path, distributions, set())
    walk(here)
    walk_without_extras(here)


def test_the_dashboard_answers_with_the_extra_server(distributions: Distributions, tmp_path: Path) -> None:
    here = environment(tmp_path, distributions, {"server"})
    here.run("mainspring", "init")
    walk_with_server(here)
