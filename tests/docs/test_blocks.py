"""Every fenced block of every page has a label, and a check: that of its language, or one that the table names."""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import psycopg
import pytest

from mainspring import Mainspring, State
from mainspring.config.load import load
from mainspring.core.render.queues import ScaleJson
from mainspring.core.rules.importing.crontab import read_crontab
from mainspring.core.webhooks.payloads import ended
from mainspring.model.execution import ExecutionRow
from mainspring.stores.mongo import MongoStore
from mainspring.stores.postgres import PostgresStore
from tests.deploy.files import BIN, run
from tests.docs import table
from tests.docs.blocks import ALL, ROOT, SHELLS, Block, commands, first_words
from tests.docs.command_parsing import parse
from tests.docs.test_console import shows
from tests.pgbouncer_server import pgbouncer
from tests.prometheus_server import program as prometheus_program
from tests.servers import postgres

pytestmark = pytest.mark.req("DEV-4")


def loads_as_settings(text: str, folder: Path) -> None:
    tomllib.loads(text)
    (folder / "mainspring.toml").write_text(text)
    load(environ={}, path=folder / "mainspring.toml")


def is_json_of_ours(text: str, _: Path) -> None:
    value = json.loads(text)
    if "mcpServers" in value:
        for each in value["mcpServers"].values():
            assert Path(each["command"]).name == "mainspring"
            parse(each["args"])
    elif "wanted" in value:
        assert list(value) == list(ScaleJson.__struct_fields__)
    else:
        row = ExecutionRow(id="e", job="j", job_id="i", handler="h", state=State.FAILED, reason="error")
        message = json.loads(ended(row).body())
        assert (list(value), value["type"]) == (list(message), message["type"])
        assert set(value["data"]) <= set(message["data"])


def configures_prometheus(text: str, folder: Path) -> None:
    """Debian builds promtool without the discovery of Kubernetes."""
    (folder / "prometheus.yml").write_text(re.sub(r"kubernetes_sd_configs: .*", "static_configs: []", text))
    promtool("check", "config", "--syntax-only", folder / "prometheus.yml")


def is_a_query_of_our_metrics(text: str, folder: Path) -> None:
    (folder / "rules.yml").write_text(json.dumps({"groups": [{"name": "a", "rules": [{"record": "a", "expr": text}]}]}))
    promtool("check", "rules", folder / "rules.yml")
    metrics = (ROOT / "src/mainspring/observe/metrics/prometheus.py").read_text()
    for name in re.findall(r"[a-z]+_[a-z_]+", text):
        assert name.removesuffix("_total") in metrics


def promtool(*arguments: str | Path) -> None:
    done = run(prometheus_program("promtool"), *arguments)
    assert done.returncode == 0, done.stdout + done.stderr


def is_dockerfile(text: str, folder: Path) -> None:
    (folder / "Dockerfile").write_text(f"FROM python:3.13-slim\n{text}")
    done = run(BIN / "hadolint", folder / "Dockerfile")
    assert done.returncode == 0, done.stdout


def is_accepted_by_its_program(text: str, _: Path) -> None:
    """postgresql.conf and pgbouncer.ini, by their first lines."""
    if text.startswith("# postgresql.conf"):
        file = postgres().folder / "page.conf"
        file.write_text(text)
        file.chmod(0o644)
        postgres().client("postgres", "-C", "archive_command", "-D", postgres().data, f"--config-file={file}")
        return
    parser = configparser.ConfigParser()
    parser.read_string(text)
    settings = dict(parser["pgbouncer"])
    for place in ("listen_addr", "listen_port", "auth_type", "auth_file"):
        del settings[place]
    with pgbouncer(postgres(), settings.pop("pool_mode"), pool_size=int(settings.pop("default_pool_size")), **settings):
        pass


def is_crontab(text: str, _: Path) -> None:
    lines = read_crontab(text)
    assert lines
    assert [line for line in lines if line.reason] == []


@cache
def database() -> str:
    """With a role and a job that the pages name."""
    url = postgres().migrated_database()
    postgres().execute("DO $$ BEGIN CREATE ROLE app; EXCEPTION WHEN duplicate_object THEN END $$")
    app = Mainspring(url)

    @app.job("send-reminder")
    def send_reminder(shift_id: str) -> None: ...

    with app.sync:
        return url


def runs_on_postgres(text: str, _: Path) -> None:
    """A comment below a statement is what it returns."""
    shown = [line.removeprefix("-- ") for line in text.splitlines() if line.startswith("-- ")]
    with psycopg.connect(database(), autocommit=True) as connection:
        answer = connection.execute(text.encode())
        rows = answer.fetchall() if answer.description else []
    if shown:
        assert shows("\n".join(json.dumps(value) for row in rows for value in row), shown)


DRAWING = re.compile("[│▼─▶]")
WORDS = re.compile(r"(?<![\w.':])(?:[a-z]+ ){2,}[a-z]+(?!\w)")
NAMES = re.compile(r"(?<!['\w])[a-z]+(?:_[a-z]+)+\b")
STORES = {"postgresql": PostgresStore, "mongodb": MongoStore}


@cache
def source() -> str:
    """The code, with each text that goes on in the next line as one."""
    files = (file for file in (ROOT / "src").rglob("*") if file.suffix in (".py", ".sql"))
    return re.sub(r'"\s*\n\s*f?"', "", "".join(file.read_text() for file in files))


def is_said_by_us(text: str, _: Path) -> None:
    """An address that we accept, or output: its names, and some words of each line, are in our code."""
    if address := re.match(r"(\w+)://", text):
        STORES[address[1]](text.strip())
        return
    for line in [] if DRAWING.search(text) else text.splitlines():
        phrases = WORDS.findall(line)
        assert not phrases or any(phrase in source() for phrase in phrases), line
        assert [name for name in NAMES.findall(line) if name not in source()] == [], line


CHECKERS: dict[str, Callable[[str, Path], None]] = {
    "toml": loads_as_settings,
    "json": is_json_of_ours,
    "yaml": configures_prometheus,
    "promql": is_a_query_of_our_metrics,
    "dockerfile": is_dockerfile,
    "ini": is_accepted_by_its_program,
    "crontab": is_crontab,
    "sql": runs_on_postgres,
    "text": is_said_by_us,
}
EXECUTED = {"python", "py", *SHELLS}
"""Languages whose blocks test_pages.py, test_fragments.py and test_console.py execute."""
TOOLS = {"pgbouncer": "[pgbouncer]"}
CHECKED = [
    pytest.param(
        block,
        id=str(block),
        marks=pytest.mark.needs_tool(*(tool for tool, words in TOOLS.items() if words in block.text)),
    )
    for block in ALL
    if block.language in CHECKERS and not table.covered_elsewhere(block)
]


@pytest.mark.parametrize("block", CHECKED)
def test_a_block_is_what_its_label_says(block: Block, tmp_path: Path) -> None:
    CHECKERS[block.language](block.text, tmp_path)


def test_every_block_has_a_check_or_a_reason() -> None:
    unknown = [
        f"{block} ({block.language or 'no label'}): {block.first}"
        for block in ALL
        if block.language not in (*EXECUTED, *CHECKERS, *table.NOT_CHECKED) and not table.covered_elsewhere(block)
    ]
    assert unknown == [], "label the block, give its language a checker, or enter it in tests/docs/table.py"
    assert [str(block) for block in ALL if block.language in SHELLS and not [*commands(block)]] == []


def test_the_table_has_no_entry_without_a_block() -> None:
    typed = [
        (block.page, first_words(command))
        for block in ALL
        if block.language in SHELLS
        for command, _ in commands(block)
    ]
    assert [entry for entry in table.ELSEWHERE if not any(table.matches(entry, block) for block in ALL)] == []
    for page, first in (*table.PARSED_ONLY, *table.COMMAND_CODES):
        assert any(page == where and command.startswith(first) for where, command in typed), (page, first)
    for first in table.NOT_RUN_HERE:
        assert any(command.startswith(first) for _, command in typed), first
    assert set(table.NOT_CHECKED) - {block.language for block in ALL} == set()


def test_what_the_table_names_as_a_check_exists() -> None:
    text = (Path(__file__).parent / "table.py").read_text()
    named = set(re.findall(r"tests/[\w/]+\.py", text))
    assert len(named) > 5
    assert [name for name in named if not (ROOT / name).is_file()] == []
