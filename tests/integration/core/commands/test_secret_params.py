"""Secret parameters on every store: they reach the handler, and processes without its code mask them too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mainspring import InvalidValue, Mainspring, NonRetryable, Secret
from mainspring.core.render.entities import backfill_json, bulk_action_json, execution_json, job_json, template_json
from mainspring.core.rules import transitions
from mainspring.core.rules.secret_params import CHANGED
from mainspring.model.values.access import HIDDEN
from tests.mongo_server import mongo
from tests.servers import postgres
from tests.support import Nodes, until

pytestmark = pytest.mark.req("SEC-4")

MARKER = "hunter2-7c1f"
OTHER = "hunter3-9d20"


@pytest.fixture(params=["memory", "sqlite", "postgres", "mongo"])
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Nodes:
    if request.param in ("memory", "sqlite"):
        return Nodes(request.param, tmp_path)
    server = postgres() if request.param == "postgres" else mongo("replica_set")
    return Nodes(request.param, tmp_path, server.migrated_database())


def _shop(nodes: Nodes, seen: list[Any]) -> Mainspring:
    app = nodes.app(roles="scheduler,worker")

    @app.job("pay", max_attempts=1, secret="card.number", search="order")
    async def pay(key: Secret, card: dict[str, Any], order: int = 1, good: bool = False) -> None:
        seen.append((key, card["number"]))
        if not good:
            raise NonRetryable("declined")

    @app.job("report", cron="0 3 * * *", window="yesterday", params={"key": Secret(MARKER)})
    async def report(key: Secret) -> None: ...

    return app


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    assert MARKER not in text
    assert OTHER not in text
    return text


async def test_from_enqueue_to_retry(nodes: Nodes) -> None:
    seen: list[Any] = []
    app = _shop(nodes, seen)
    async with app, nodes.client() as web:
        made = await app.enqueue("pay", {"key": Secret(MARKER), "card": {"number": MARKER, "holder": "Ada"}})
        failed = await app.wait(made, timeout=60)
        assert seen == [(Secret(MARKER), MARKER)]
        assert failed.params["key"] == MARKER  # code reads what is stored
        there = await web.get(failed.id)
        shown = execution_json(there)["params"]
        assert shown == {"key": HIDDEN, "card": {"number": HIDDEN, "holder": "Ada"}}
        assert there.secret == ("card.number", "key")

        edited = {"key": HIDDEN, "card": {"number": OTHER, "holder": "Bob"}, "good": True}
        again = await app.wait(await web.retry(failed.id, params=edited, by="ada"), timeout=60)
        assert seen[1:] == [(Secret(MARKER), OTHER)]
        assert again.edited == {
            "card": {"before": {"number": HIDDEN, "holder": "Ada"}, "after": {"number": CHANGED, "holder": "Bob"}},
            "good": {"after": True},
        }
        _shown(execution_json(again))

        second = await app.enqueue("pay", {"key": MARKER, "card": {"number": MARKER}, "order": 2})
        await app.wait(second, timeout=60)
        bulk = await web.bulk.start("edit", filter={"search": "order=2"}, params={"key": OTHER, "good": True})
        over = await app.bulk.wait(bulk.id, timeout=60)
        assert (over.state, over.done) == ("completed", 1)
        assert bulk_action_json(over)["params"] == {"key": HIDDEN, "good": True}
        await until(lambda: len(seen) == 4, "the bulk action ran it again")
        assert seen[3] == (Secret(OTHER), MARKER)
        _shown([(each.before, each.after) for each in await web.audits()])


async def test_jobs_templates_and_backfills(nodes: Nodes) -> None:
    app = _shop(nodes, [])
    async with app, nodes.client() as web:
        view = await web.update_job("report", params={"key": OTHER}, by="ada")
        assert view.params == {"key": OTHER}
        assert job_json(view)["params"] == job_json(view)["overrides"]["params"] == {"key": HIDDEN}
        kept = await web.update_job("report", params={"key": HIDDEN}, queue="slow", by="ada")
        assert (kept.params, kept.queue) == ({"key": OTHER}, "slow")
        changed = [(each.before, each.after) for each in await web.audits("job:report")]
        assert CHANGED in _shown(changed)

        template = await web.templates.create("mine", "report", params={"key": MARKER}, by="ada")
        assert template_json(template)["params"] == {"key": HIDDEN}
        template = await web.templates.update("mine", params={"key": HIDDEN}, by="ada")
        assert (template.fields["params"], template_json(template)["params"]) == ({"key": MARKER}, {"key": HIDDEN})
        made = await web.templates.apply("mine", "made", by="ada", cron="0 4 * * *")
        assert (made.params, made.secret) == ({"key": MARKER}, ("key",))
        _shown([job_json(made), [template_json(each) for each in await web.templates.all()]])

        begin, end = "2026-03-01", "2026-03-03"
        backfill = await web.backfill("report", begin, end, params={"key": MARKER}, dry_run=True)
        assert backfill_json(backfill)["params"] == {"key": HIDDEN}
        _shown([(each.before, each.after) for each in await web.audits()])


async def test_every_kind_of_execution_carries_them(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transitions, "MISMATCH_PATIENCE_ALONE", 0.0)  # no other worker could read the parameters
    app = _shop(nodes, [])

    @app.job("each", tenants=["a", "b"], params={"key": MARKER}, isolation="thread")
    def each(key: Secret) -> str:
        return f"with {key}"

    async with app, nodes.client() as web:
        async with app.track("report", params={"key": MARKER}) as ctx:
            assert ctx.params == {"key": MARKER}
        parent = await app.wait(await web.trigger("each"), timeout=60)
        wrong = await web.enqueue("pay", {"key": [MARKER], "card": {"number": OTHER}})
        failed = await app.wait(wrong, timeout=60)  # only the worker knows what the handler takes
        assert "params.key" in str(failed.error)
        rows = await web.executions(limit=100)
        assert {row.job for row in rows} == {"report", "each", "pay"}
        assert (parent.state, len(rows)) == ("completed", 5)
        for row in rows:
            shown = execution_json(row)
            _shown([shown, (await web.get(row.id)).error])
            assert shown["params"]["key"] == HIDDEN


async def test_masks_are_refused_where_no_value_is_stored(nodes: Nodes) -> None:
    app = _shop(nodes, [])
    async with nodes.client() as web:
        await app.jobs()  # the declarations are stored
        for name, params in (("pay", {"key": HIDDEN, "card": {}}), ("report", {"key": HIDDEN})):
            for call in (web.enqueue, web.trigger):
                with pytest.raises(InvalidValue, match=r"params\.key.*give the secret itself"):
                    await call(name, params)
        with pytest.raises(InvalidValue) as refused:
            await app.enqueue("pay", {"key": [MARKER], "card": {"number": MARKER}})
        assert MARKER not in str(refused.value)
    await app.close()
