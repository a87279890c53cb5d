"""The example project, through its manage.py: its tests, its server, its worker."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.integration.contrib.django.project_runs import Project
from tests.servers import free_port
from tests.support import until_blocking

SHOP = Path(__file__).parents[4] / "examples" / "django_shop"


def test_the_shop_takes_an_order_and_a_worker_sends_the_receipt(tmp_path: Path) -> None:
    shop = Project(SHOP, "shop.settings", SHOP_DATABASE=str(tmp_path / "shop.sqlite3"))
    assert "OK" in shop.run("manage.py", "test", "orders")
    shop.run("manage.py", "migrate", "-v0")
    assert "No changes detected" in shop.run("manage.py", "makemigrations", "--check")
    address = f"127.0.0.1:{free_port()}"
    with shop.running("runserver", "--noreload", address, log=tmp_path / "server.log"):
        until_blocking(lambda: answers(f"http://{address}/admin/login/"), "the server answers", deadline=60)
        order = urlencode({"email": "ada@example.com", "item": "tea"}).encode()
        with urlopen(f"http://{address}/orders/", order) as answer:
            assert json.load(answer) == {"order": 1}
        [enqueued] = executions(shop)
        assert (enqueued["job"], enqueued["status"]) == ("send-receipt", "pending"), "a server starts no worker"
    with shop.running("mainspring", "run", "--processes", "2", log=tmp_path / "worker.log"):
        until_blocking(lambda: executions(shop)[0]["status"] == "completed", "the receipt is sent", deadline=60)
    assert "Thank you for ordering tea." in (tmp_path / "worker.log").read_text()


def test_the_command_line_of_the_shop(tmp_path: Path) -> None:
    shop = Project(SHOP, "shop.settings", SHOP_DATABASE=str(tmp_path / "shop.sqlite3"))
    shop.run("manage.py", "migrate", "-v0")
    for arguments in (("mainspring", "--help"), ("help", "mainspring")):
        shown = shop.run("manage.py", *arguments)
        assert shown.startswith("Usage: manage.py mainspring [OPTIONS] COMMAND [ARGS]...")
        assert "manage.py mainspring run --roles scheduler,worker,api" in shown
    shown = shop.run("manage.py", "mainspring", "run", "--help")
    assert (shown.startswith("Usage: manage.py mainspring run [OPTIONS]\n"), "MODULE:APP" in shown) == (True, False)
    jobs = json.loads(shop.run("manage.py", "mainspring", "jobs", "list", "-o", "json"))
    assert [job["name"] for job in jobs] == ["count-unsent", "send-receipt"]


def executions(shop: Project) -> list[dict[str, str]]:
    listed: list[dict[str, str]] = json.loads(shop.run("manage.py", "mainspring", "executions", "list", "-o", "json"))
    return listed


def answers(url: str) -> bool:
    try:
        with urlopen(url) as answer:
            return bool(answer.status == 200)
    except (URLError, ConnectionError):
        return False
