"""`manage.py mainspring`: every command of `mainspring`, on the application of the Django project."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from .....cli.preset import preset_root
from .....cli.root import run_command
from ...configuration import IMPORT_PATH


class Command(BaseCommand):  # type: ignore[misc]  # Django ships no types
    help = "Run and steer the jobs of this project."
    requires_system_checks: list[str] = []  # noqa: RUF012  # as Django declares it

    def run_from_argv(self, argv: list[str]) -> None:
        """The command line reads its own options: Django's would refuse them."""
        program = f"{Path(argv[0]).name} {argv[1]}"
        sys.exit(self._run(program, argv[2:]))

    def print_help(self, prog_name: str, subcommand: str) -> None:
        self._run(f"{Path(prog_name).name} {subcommand}", ["--help"])

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("arguments", nargs="*")

    def handle(self, *args: Any, **options: Any) -> None:
        """For `call_command("mainspring", "jobs", "list")`."""
        code = self._run("mainspring", list(options["arguments"]))
        if code:
            raise CommandError(f"mainspring {' '.join(options['arguments'])} has failed", returncode=code)

    def _run(self, program: str, arguments: list[str]) -> int:
        _let_children_import(Path(sys.argv[0]).resolve().parent)
        return run_command(arguments, preset_root(IMPORT_PATH, program), program)


def _let_children_import(project: Path) -> None:
    """Processes that a command starts import the settings of the project, from whichever folder it was started."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if (project / "manage.py").is_file() and str(project) not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(project), *filter(None, paths)])
