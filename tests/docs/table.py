"""The one table of blocks and commands that are not simply executed, each with its reason and what checks it instead.

`test_blocks.py` keeps it honest: an entry that matches nothing on any page fails, and so does a block without a check.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from tests.docs.blocks import Block


class Elsewhere(NamedTuple):
    page: str
    language: str
    first: str
    """How the first line of the block begins; empty for all blocks of this language on the page."""
    checked_by: str
    """The test that executes the block; empty if there is none."""
    reason: str


DJANGO = "a Django project of its own"
QUOTED = "lines of the files in deploy/, which are checked as a whole"
ELSEWHERE = [
    Elsewhere(
        "README.md", "console", "$ mainspring run jobs:app --roles sched", "tests/docs/test_http_walk.py", "one walk"
    ),
    Elsewhere("README.md", "console", "$ api=", "tests/docs/test_http_walk.py", "one walk, each answer is checked"),
    Elsewhere("docs/deploy/docker.md", "yaml", "stop_grace_period", "tests/deploy/test_pages.py", QUOTED),
    Elsewhere("docs/deploy/kubernetes.md", "yaml", "terminationGrace", "tests/deploy/test_pages.py", QUOTED),
    Elsewhere("docs/deploy/systemd.md", "ini", "LoadCredential", "tests/deploy/test_pages.py", QUOTED),
    Elsewhere("docs/django.md", "bash", "", "tests/docs/test_django_page.py", DJANGO),
    Elsewhere("docs/django.md", "python", "", "tests/docs/test_django_page.py", DJANGO),
    Elsewhere("docs/frameworks.md", "ini", "[uwsgi]", "tests/docs/test_frameworks_page.py", "a server runs with it"),
    Elsewhere("docs/frameworks.md", "py", "# gunicorn", "tests/docs/test_frameworks_page.py", "a server runs with it"),
    Elsewhere("docs/moving/procrastinate.md", "py", "app = procr", "", "another library, which is not installed here"),
    Elsewhere(
        "docs/stores.md", "py", "await app.enqueue", "tests/integration/stores/postgres/test_enqueue.py", "each driver"
    ),
    Elsewhere("docs/testing.md", "py", "", "tests/docs/test_testing_page.py", "tests, run by pytest"),
    Elsewhere(
        "docs/testing.md", "toml", "", "tests/docs/test_testing_page.py", "the settings of pytest in those tests"
    ),
    Elsewhere(
        "docs/tutorial.md", "", "", "tests/docs/test_tutorial.py", "one application that grows from block to block"
    ),
]

DJANGO_BEAT = "reads tables that Django makes; tests/acceptance/test_cli_import_schedulers.py makes them"

NOT_CHECKED = {"java": "for comparison with what a reader has; there is no compiler here"}
"""Languages without a checker, and why."""

NOT_RUN_HERE = {
    "docker": "needs a container engine; tests/deploy/test_docker.py runs the entry point of the image without one",
    "kubectl": "needs a cluster; tests/deploy/test_kubernetes.py validates the manifests",
    "helm uninstall": "needs a cluster",
    "systemctl": "needs systemd as the first process; tests/deploy/test_systemd.py lets it verify the unit",
    "journalctl": "needs systemd as the first process",
    "sudo": "changes the machine",
    "install -m 640 -g prometheus": "needs the group of a Prometheus that is installed",
    "python3 -m venv": "takes seconds, and nothing is installed into it here",
}
"""How commands begin that are not typed. What `docker` and `kubectl` run in a container is typed without them."""

Commands = dict[tuple[str, str], str]
"""Reasons for commands: each by its page and how it begins."""

PARSED_ONLY: Commands = {
    ("docs/backfill.md", "mainspring backfill start revenue --from 2026-03-01 --newest-first --concurrency 4"): (
        "waits 10 s for each day since March"
    ),
    ("docs/cli.md", "mainspring import django-celery-beat"): DJANGO_BEAT,
    ("docs/moving/celery.md", "mainspring import django-celery-beat"): DJANGO_BEAT,
}
"""Commands of Mainspring that are parsed with their options and not run, and why."""

COMMAND_CODES: dict[tuple[str, str], tuple[int, str]] = {
    ("docs/alerts.md", "mainspring watch --database-url"): (1, "jobs are late"),
    ("docs/alerts.md", "mainspring watch --once"): (1, "jobs are late, as the page shows"),
    ("docs/bulk.md", "mainspring executions retry --error-group 5f0c1a2b3c4d --probe 5"): (
        1,
        "the error of this world is still there, so that the probe stops the action",
    ),
    ("docs/cli.md", "mainspring executions retry 0123456789ab --wait"): (1, "it fails again"),
}
"""Commands that end with another code than 0 in the world of their page, and why they are right to."""

Entry = TypeVar("Entry")


def listed(table: Mapping[tuple[str, str], Entry], page: str, command: str) -> Entry | None:
    """The entry of the command."""
    return next((found for (where, first), found in table.items() if where == page and command.startswith(first)), None)


def covered_elsewhere(block: Block) -> bool:
    return any(matches(entry, block) for entry in ELSEWHERE)


def matches(entry: Elsewhere, block: Block) -> bool:
    return (
        entry.page == block.page
        and (not entry.language or entry.language == block.language)
        and block.first.startswith(entry.first)
    )
