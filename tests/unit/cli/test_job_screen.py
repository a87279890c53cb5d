"""What `jobs show`, the JSON form and the list of handlers say about a stop: what holds, and what cannot."""

from __future__ import annotations

import pytest

from mainspring import Mainspring
from mainspring.cli.screens.jobs import print_job
from mainspring.core.render.entities import handler_json, job_json

pytestmark = pytest.mark.req("EXE-9", "EXE-10")

app = Mainspring("memory://")


@app.job("thread", timeout="10m")
def in_thread() -> None: ...


@app.job("loop", timeout="10m")
async def on_loop() -> None: ...


@app.job("process", isolation="process", max_cpu="5m", max_memory="512MiB", max_address_space="4GB")
def in_process() -> None: ...


CANNOT = 'cannot be interrupted: ends at its next ctx.check(); isolation="process" would stop it'
WHERE = {"thread": "a thread", "loop": "the event loop", "process": "a child process"}
SAID = {
    "thread": ("thread", "thread", CANNOT),
    "loop": (None, "async", "stops at its next await"),
    "process": ("process", "process", "stops for certain"),
}


async def test_a_job_says_what_a_stop_does(capsys: pytest.CaptureFixture[str]) -> None:
    for job, (isolation, of_handler, words) in SAID.items():
        view = await app.job_view(job)
        shape = job_json(view)
        assert (shape["policy"]["isolation"], shape["stop"].startswith(words)) == (isolation, True)
        print_job(view)
        screen = " ".join(capsys.readouterr().out.split())
        assert f"stopping {words}" in screen
        assert f"runs in {WHERE[job]}" in screen
        assert " runs 0 " in screen
        assert (job == "process") == ("at most 5m" in screen and "at most 512MiB" in screen and "at most 4GB" in screen)
        handler = handler_json(job, app._runtime.registry.get(job), [])
        assert (handler["isolation"], handler["stop"].startswith(words)) == (of_handler, True)
    assert handler_json("elsewhere", None, [])["stop"] is None
    await app.close()


async def test_a_default_is_shown_where_it_holds() -> None:
    other = Mainspring("memory://", default_isolation="process", import_path=f"{__name__}:app")
    other.job("plain")(lambda: None)
    other.job("thread", isolation="thread")(lambda: None)
    other.job("loop")(on_loop.__wrapped__)  # type: ignore[attr-defined]
    views = [await other.job_view(name) for name in ("plain", "thread", "loop")]
    assert [job_json(view)["policy"]["isolation"] for view in views] == ["process", "thread", None]
    assert [each.isolation for each in other._runtime.registry.handlers] == ["process", "thread", "async"]
    await other.close()
