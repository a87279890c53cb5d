"""The settings of docs/frameworks.md for servers of WSGI applications: real servers run with them."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, blocks
from tests.integration.contrib.test_wsgi_servers import serving
from tests.support import DEADLINE, until_blocking

BLOCKS = blocks(ROOT / "docs" / "frameworks.md")
GUNICORN = ("gunicorn", "--no-control-socket", "-w", "2", "-b", "127.0.0.1:{}", "-c", "gunicorn.conf.py", "shop:site")
UWSGI = ("pyuwsgi", "--ini", "uwsgi.ini", "--http-socket", "127.0.0.1:{}")
SITE = "from examples.flask_shop import create_app, jobs\nsite = create_app(work_inside={})\n"


@pytest.mark.req("DEV-4")
@pytest.mark.parametrize(
    ("first", "command", "work_inside", "loaded"),
    [("# gunicorn.conf.py", GUNICORN, False, ["Booting worker"] * 2), ("[uwsgi]", UWSGI, True, ["WSGI app 0"] * 4)],
    ids=["gunicorn", "uwsgi"],
)
def test_a_server_with_these_settings_runs_jobs_in_its_workers(
    first: str, command: tuple[str, ...], work_inside: bool, loaded: list[str], tmp_path: Path
) -> None:
    [settings] = [block.text for block in BLOCKS if block.first == first]
    (tmp_path / ("uwsgi.ini" if work_inside else "gunicorn.conf.py")).write_text(settings)
    (tmp_path / "shop.py").write_text(SITE.format(work_inside))
    with serving(tmp_path, *command) as server:
        until_blocking(lambda: server.workers() == len(loaded), "all workers have started")
        assert until_blocking(lambda: re.findall(loaded[0], server.log) == loaded, server.log)
        order = urllib.request.Request(f"{server.address}/orders/42?pages=1", method="POST")
        with urllib.request.urlopen(order, timeout=DEADLINE) as answer:
            execution = json.load(answer)["execution"]
        assert server.client.sync.wait(execution, timeout=DEADLINE).result == "invoice-42.pdf"
        server.stopped()
