"""`mainspring mcp`: an assistant's own client starts the real command and speaks with it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.types import CallToolResult

from mainspring.cli import main
from tests.acceptance.command_line import CommandLine

pytestmark = pytest.mark.req("DEV-5")

LOUD = """
import os, sys
print("a module that prints")
os.system("echo a program that prints")
from shop import app
"""


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[CommandLine]:
    command = CommandLine(tmp_path)
    (tmp_path / "loud.py").write_text(LOUD)
    yield command
    command.close()


async def test_an_assistant_reads_and_commands_over_standard_input_and_output(cli: CommandLine) -> None:
    made = cli.text("token", "create", "helper", "--role", "operator", "--app", "shop:app").split()[-1]
    (cli.folder / "token.txt").write_text(f"{made}\n")
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "mainspring", "mcp", "--app", "loud:app", "--token-file", "token.txt", "--tools", "all"],
        env=cli.environ,
        cwd=cli.folder,
    )
    strays = list[Any]()

    async def collect(message: Any) -> None:
        strays.append(message)

    with cli.log().open("w") as errors:
        async with Client(stdio_client(server, errlog=errors), message_handler=collect) as client:
            assert client.server_info.name == "mainspring"
            assert "pause_job" in {tool.name for tool in (await client.list_tools()).tools}
            jobs = _data(await client.call_tool("list_jobs", {"search": "report"}))
            assert [job["name"] for job in jobs["items"]] == ["report"]
            assert _data(await client.call_tool("pause_job", {"job": "report", "note": "why not"}))["is_paused"]
            [record] = _data(await client.call_tool("list_audit", {"target": "job:report"}))["items"]
            assert (record["action"], record["actor"][:13]) == ("pause", "token:helper/")
    assert strays == [], "nothing but the protocol is on standard output"
    said = cli.log().read_text()
    assert "a module that prints" in said
    assert "a program that prints" in said
    assert "with the role operator" in said
    assert made not in said


def _data(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, result.content
    data: dict[str, Any] = result.structured_content
    return data


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--url", "ftp://jobs"],
            "--url: 'ftp://jobs' is not valid; allowed: an address such as http://localhost:8700",
        ),
        (["--url", "http://ada:pw@jobs"], "--url: '(not shown)' is not valid; allowed: an address without a password"),
        (["--url", "http://jobs", "--app", "a:b"], "--url names a server, --app what to serve here; give one"),
        (["--url", "http://localhost:1"], "no server answers at http://localhost:1"),
        (["--token-file", "missing.txt"], "--token-file: the file 'missing.txt' cannot be read"),
        (["--database-url", "sqlite:///missing.db"], "there is no file 'missing.db'"),
    ],
)
def test_wrong_input_is_one_line_on_standard_error(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MAINSPRING_APP", raising=False)
    assert main(["mcp", "--list", *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, said in err, err.count("\n")) == ("", True, 1)


def test_the_token_comes_from_one_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MAINSPRING_API_TOKEN", "mainspring_secret")
    assert main(["mcp", "--list", "--token-file", str(tmp_path / "t")]) == 2
    err = capsys.readouterr().err
    assert ("MAINSPRING_API_TOKEN and a token file are both given" in err, "mainspring_secret" in err) == (True, False)
