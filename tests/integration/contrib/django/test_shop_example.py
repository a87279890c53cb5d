"""The example project, through its manage.py: its tests, its server, its worker."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from mainspring import Mainspring
from tests.integration.contrib.django.project_runs import Project
from tests.servers import free_port
from tests.support import until_blocking

SHOP = Path(__file__).parents[4] / "examples" / "django_shop"


def test_the_shop_takes_an_order_and_a_worker_sends_the_receipt(tmp_path: Path) -> None:
    shop = Project(SHOP, "shop.settings", SHOP_DATABASE=str(tmp_path / "shop.sqlite3"))
    commands = ("manage.py test orders", "manage.py migrate -v0", "manage.py makemigrations --check")
    tested, _, made = shop.run(*commands)
    assert ("OK" in tested, "No changes detected" in made) == (True, True)
    client = Mainspring(f"sqlite:///{tmp_path}/shop.sqlite3", roles=[])
    address = f"127.0.0.1:{free_port()}"
    with shop.running("runserver", "--noreload", address, log=tmp_path / "server.log"):
        until_blocking(lambda: answers(f"http://{address}/admin/login/"), "the server answers", deadline=60)
        order = urlencode({"email": "ada@example.com", "item": "tea"}).encode()
        with urlopen(f"http://{address}/orders/", order) as answer:
            assert json.load(answer) == {"order": 1}
        [enqueued] = client.sync.executions()
        assert (enqueued.job, enqueued.state) == ("send-receipt", "pending"), "a server starts no worker"
    with shop.running("mainspring", "run", "--processes", "2", log=tmp_path / "worker.log"):
        ended = client.sync.wait(enqueued, timeout=60)
        assert ended.state == "completed"
    client.sync.close()
    assert "Thank you for ordering tea." in (tmp_path / "worker.log").read_text()
    the_command_line_of(shop)


def the_command_line_of(shop: Project) -> None:
    asked = ("mainspring --help", "help mainspring", "mainspring run --help")
    listed = ("mainspring jobs list -o json", "mainspring executions list -o json")
    *helps, run_help, jobs, executions = shop.run(*(f"manage.py {each}" for each in (*asked, *listed)))
    for shown in helps:
        assert shown.startswith("Usage: manage.py mainspring [OPTIONS] COMMAND [ARGS]...")
        assert "manage.py mainspring run --roles scheduler,worker,api" in shown
    assert run_help.startswith("Usage: manage.py mainspring run [OPTIONS]\n")
    assert "MODULE:APP" not in run_help
    assert [job["name"] for job in json.loads(jobs)] == ["count-unsent", "send-receipt"]
    [execution] = json.loads(executions)
    assert (execution["job"], execution["status"]) == ("send-receipt", "completed")


def answers(url: str) -> bool:
    try:
        with urlopen(url) as answer:
            return bool(answer.status == 200)
    except (URLError, ConnectionError):
        return False
