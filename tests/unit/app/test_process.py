"""Which event loop the setting `uvloop` leads to, where it is installed and where it is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing

import pytest
import uvloop

from mainspring import ConfigurationError, InvalidValue, Mainspring
from mainspring.app import process
from mainspring.app.process import new_event_loop, run_to_end, uses_uvloop
from mainspring.config.load import load


def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "find_spec", lambda name: None)


@pytest.mark.parametrize(("wanted", "expected"), [("auto", True), (True, True), (False, False)])
def test_uvloop_is_used_where_it_is_installed_unless_refused(wanted: bool | str, expected: bool) -> None:
    with closing(new_event_loop(wanted)) as loop:
        assert isinstance(loop, uvloop.Loop) is expected
    assert uses_uvloop(wanted) is expected


def test_without_it_auto_means_asyncio_and_true_is_an_error_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    absent(monkeypatch)
    with closing(new_event_loop("auto")) as loop:
        assert isinstance(loop, asyncio.SelectorEventLoop)
    with pytest.raises(ConfigurationError, match=r'pip install "mainspring\[uvloop\]"'):
        new_event_loop(True)


@pytest.mark.req("OPS-2")
@pytest.mark.parametrize(
    ("given", "expected"), [("auto", "auto"), (" AUTO ", "auto"), ("true", True), ("off", False), (True, True)]
)
def test_the_setting(given: bool | str, expected: bool | str) -> None:
    assert load({"uvloop": given}, {}, None).uvloop == expected


def test_a_bad_value_is_told_with_what_is_allowed() -> None:
    with pytest.raises(InvalidValue, match="auto, true or false"):
        load({}, {"MAINSPRING_UVLOOP": "fast"}, None)


@pytest.mark.req("EXE-8")
@pytest.mark.parametrize("new_loop", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_a_system_exit_in_a_task_does_not_end_either_loop(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """A task that a handler started: its error, not the end of the process."""

    async def leave() -> None:
        raise SystemExit(7)

    async def main() -> str:
        task = asyncio.create_task(leave())
        await asyncio.wait({task})
        assert isinstance(task.exception(), SystemExit)
        return "went on"

    assert run_to_end(main, new_loop) == "went on"


@pytest.mark.parametrize("new_loop", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_work_is_done_on_either_loop(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    app = Mainspring("memory://")
    app.job("async")(on_the_loop)
    app.job("sync")(in_a_thread)

    async def main() -> list[object]:
        async with app:
            made = [await app.enqueue(name) for name in ("async", "sync")]
            return [(await app.wait(one, 20)).result for one in made if one is not None]

    assert run_to_end(main, new_loop) == ["loop", "thread"]


async def on_the_loop() -> str:
    await asyncio.sleep(0.001)
    return "loop"


def in_a_thread() -> str:
    return "thread"
