"""Every attack gets its expected answer, and none of them changes anything or shows what it should not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.api.attacks.attack import Attack
from tests.api.attacks.tables import (
    bodies,
    browsers,
    credentials,
    hooks,
    leaks,
    limits,
    names,
    outgoing,
    questions,
    roles,
    routes,
    wire,
)
from tests.api.attacks.world import world

pytestmark = [pytest.mark.req("SEC-1"), pytest.mark.req("SEC-2")]

FEWEST = 650
AREAS: dict[str, Callable[[], list[Attack]]] = {
    "credentials": credentials.attacks,
    "bodies": bodies.attacks,
    "questions": questions.attacks,
    "roles": roles.attacks,
    "names": names.attacks,
    "outgoing": outgoing.attacks,
    "browsers": browsers.attacks,
    "hooks": hooks.attacks,
    "limits": limits.attacks,
    "leaks": leaks.attacks,
    "routes": routes.attacks,
}

STORED = ("questions", "routes")
"""Areas whose attacks aim at the database."""


@pytest.mark.parametrize("area", AREAS)
async def test_every_attack_is_refused_and_leaves_no_trace(area: str, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/jobs.db" if area in STORED else "memory://"
    async with world(store) as target:
        before = await target.state()
        found = [finding for attack in AREAS[area]() for finding in await target.findings(attack)]
        assert found == [], "\n".join(found)
        assert await target.state() == before


def test_there_are_enough_different_attacks() -> None:
    """The same kind of attack at several routes counts once."""
    kinds = {(area, attack.kind) for area, attacks in AREAS.items() for attack in attacks()}
    kinds |= {("wire", attack.kind) for attack in wire.attacks()} | {("outgoing", url) for url in outgoing.ADDRESSES}
    assert len(kinds) >= FEWEST
