"""What is marked, what it costs while nobody subscribes, and how endpoints are disabled."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from mainspring.core.errors.records import Mute, mute_entry
from mainspring.core.jobs.job_cache import JobCache
from mainspring.core.ports import HttpAnswer
from mainspring.core.queries.queries import Queries
from mainspring.core.rules import transitions
from mainspring.core.webhooks.commands import Webhooks
from mainspring.core.webhooks.delivering import Deliverer
from mainspring.core.webhooks.endpoints import GIVE_UP_AFTER, Endpoint, entry_of
from mainspring.core.webhooks.hand_over import SYSTEM_JOB, EventHandOver
from mainspring.core.webhooks.marking_store import MarkingStore
from mainspring.core.webhooks.subscriptions import FRESH_FOR, Subscriptions
from mainspring.model.errors import CommandRefused, FailedAttempt, InvalidValue, NonRetryable
from mainspring.model.events import WebhookDisabled
from mainspring.model.execution import ExecutionRow, Outcome, State, encode_policy, next_token
from mainspring.model.policies import Retry, RunPolicy
from mainspring.model.store.entries import EntryWrite
from mainspring.model.store.messages import ExecutionQuery
from mainspring.stores.memory import MemoryStore

AGAIN = encode_policy(RunPolicy(max_attempts=3, retry=Retry("1s", multiplier=1)))


class Hands:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.micros = 1_000_000_000

    def now(self) -> int:
        return self.micros

    def monotonic(self) -> float:
        return self.micros / 1_000_000


class Counting:
    """Counts the calls to a store by name."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.calls: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def call(*args: Any, **named: Any) -> Any:
            self.calls.append((name, args))
            return found(*args, **named)

        return call

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


class Answering:
    """A receiver that answers as the test says."""

    def __init__(self) -> None:
        self.status, self.sent = 204, [("", {})]

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, deadline: float) -> HttpAnswer:
        self.sent.append((url, dict(headers)))
        return HttpAnswer(self.status)


class World:
    """The parts of webhooks around a store in memory."""

    def __init__(self) -> None:
        self.clock, self.events, chance = Hands(), [], random.Random(1)
        self.plain = Counting(MemoryStore(self.clock))
        store: Any = self.plain
        self.subscriptions = Subscriptions(store, self.clock)
        self.hand_over = EventHandOver(
            store, self.subscriptions, JobCache(store, self.clock, chance, "1"), self.events.append
        )
        self.store = MarkingStore(store, self.subscriptions, self.hand_over, self.events.append)
        cache = JobCache(store, self.clock, chance, "1")
        queries = Queries(store, cache, self.clock, 30.0)
        parts = (self.subscriptions, self.hand_over, queries, chance, self.events.append)
        self.webhooks = Webhooks(store, *parts, mails=False, private=True)  # type: ignore[arg-type]
        self.sender = Answering()
        self.deliverer = Deliverer(store, self.hand_over, self.sender, None, chance, self.events.append)
        self.marked = 0
        self.subscriptions.on_marked = self._note

    def _note(self) -> None:
        self.marked += 1

    def row(self, id: str = "01a1eac9-7aad-787a-b322-ce04265669a3", **fields: Any) -> ExecutionRow:
        token, now = next_token(0, 1), self.clock.now()
        running = {"state": State.RUNNING, "owner": "w", "token": token, "claimed": now, "lease": now + 10**12}
        return ExecutionRow(**{"id": id, "job": "report", "job_id": "i", "handler": "h", **running, **fields})

    def outcome(self, end: str) -> Outcome:
        now = self.clock.now()
        return Outcome(end=end, started=now, ended=now, worker="w", error=None if end == "completed" else "E: no")  # type: ignore[arg-type]

    async def end(self, row: ExecutionRow, end: str = "completed") -> None:
        self.clock.micros += 1_000
        await self.store.exchange([transitions.after_attempt(row, self.outcome(end))], None)

    async def deliveries(self) -> list[str]:
        found = await self.plain.find(ExecutionQuery(job=SYSTEM_JOB, limit=100))
        return sorted(msgspec.json.decode(row.params)["event"] for row in found)

    async def deliver(self, endpoint: str, event: str = "execution.failed", body: str = '{"type":"t"}') -> None:
        class Context:
            tenant, metadata = endpoint, dict[str, Any]()

            class logger:
                @staticmethod
                def info(*args: object) -> None: ...

        await self.deliverer._deliver(Context, "id", event, body)  # type: ignore[arg-type]


@pytest.mark.req("WHK-1")
async def test_without_endpoints_every_call_goes_straight_to_the_store() -> None:
    """One read in so many seconds, however much is settled and enqueued: the calls are counted, not timed."""
    world = World()
    await world.subscriptions.read_now()
    world.plain.calls.clear()
    rows = [world.row(f"01a1eac9-7aad-787a-b322-ce0426566{n:03}") for n in range(100)]
    await world.store.add(rows)
    for row in rows:
        change = transitions.after_attempt(row, world.outcome("completed"))
        changes = [change]
        await world.store.exchange(changes, None)
        assert world.plain.calls[-1][1][0] is changes, "what is settled is passed on as it is"
    assert world.plain.names() == ["add"] + ["exchange"] * 100
    world.clock.micros += round(FRESH_FOR * 1_000_000)
    await world.end(world.row("01a1eac9-7aad-787a-b322-ce0426566999"))
    assert world.plain.names()[-2:] == ["list_entries", "exchange"]


@pytest.mark.req("WHK-1")
async def test_only_what_somebody_wants_is_marked() -> None:
    world = World()
    await world.webhooks.create("https://x.example/", events=["execution.failed"], jobs=["report"], by="ada")
    wanted, other, fine = (world.row(f"01a1eac9-7aad-787a-b322-ce042656600{n}") for n in range(3))
    other = msgspec.structs.replace(other, job="other")
    own = world.row("01a1eac9-7aad-787a-b322-ce0426566004", job="mainspring.other")
    await world.plain.add([wanted, other, fine, own])
    for row, end in ((wanted, "failed"), (other, "failed"), (fine, "completed"), (own, "failed")):
        await world.end(msgspec.structs.replace(row, policy='{"max_attempts":1}'), end)
    assert [row.id for row in await world.plain.todo(10)] == [wanted.id]
    assert world.marked == 1
    await world.hand_over.ended(await world.plain.todo(10))
    await world.hand_over.ended(await world.plain.todo(10))
    assert await world.deliveries() == ["execution.failed"]


@pytest.mark.req("WHK-1", "SRC-2")
async def test_a_muted_error_is_heard_in_a_job_that_had_not_shown_it() -> None:
    """Its mute ends when the failure is counted, which comes later than the hand-over."""
    world = World()
    await world.webhooks.create("https://x.example/", format="slack", events=["execution.failed"], by="ada")
    report, other = (
        world.row(policy='{"max_attempts":1}'),
        world.row("01a1eac9-7aad-787a-b322-ce0426566001", job="other", policy='{"max_attempts":1}'),
    )
    group = transitions.after_attempt(report, world.outcome("failed")).labels[0][1:]
    await world.plain.write_entries([EntryWrite(entry=mute_entry(group, Mute(at=1, by="ada", jobs=("report",))))])
    await world.plain.add([report, other])
    for row in (report, other):
        await world.end(row, "failed")
        await world.hand_over.ended(await world.plain.todo(10))
        heard = await world.deliveries()
        assert heard == ([] if row is report else ["execution.failed"])


@pytest.mark.req("WHK-1", "REL-1")
async def test_the_ending_hands_over_retries_that_a_crash_left_out() -> None:
    world = World()
    await world.webhooks.create("https://x.example/", events=["execution.retrying"], by="ada")
    row = world.row(policy=AGAIN)
    await world.plain.add([row])
    change = transitions.after_attempt(row, world.outcome("failed"))
    await world.plain.exchange([change], None)  # settled, and the process died before the hand-over
    assert await world.deliveries() == []
    world.clock.micros += 5_000_000
    pending = await world.plain.execution(row.id)
    again = msgspec.structs.replace(pending, state=State.RUNNING, owner="w", token=next_token(pending.token, 1))
    ended = msgspec.structs.replace(
        again, state=State.COMPLETED, finished=world.clock.now(), owner=None, attempts_json=pending.attempts_json
    )
    await world.hand_over.ended([ended])
    await world.hand_over.retrying([(row, change.attempt)])  # type: ignore[list-item]
    assert await world.deliveries() == ["execution.retrying"], "under the same id"


@pytest.mark.req("WHK-1")
async def test_an_endpoint_that_only_fails_is_disabled_and_others_hear_of_it() -> None:
    world = World()
    await world.webhooks.create("https://bad.example/token", id="bad", by="ada")
    await world.webhooks.create("https://well.example/", id="well", events=["webhook.disabled"], by="ada")
    world.sender.status = 500
    for _ in range(3):
        with pytest.raises(FailedAttempt):
            await world.deliver("bad")
    writes = world.plain.names().count("write_entries")
    since = (await world.webhooks.get("bad")).failing_since
    assert since is not None
    with pytest.raises(FailedAttempt):
        await world.deliver("bad", event="webhook.test")
    world.sender.status = 200
    await world.deliver("bad")
    assert (await world.webhooks.get("bad")).failing_since is None
    assert world.plain.names().count("write_entries") == writes + 1, "one write when it works again"
    world.sender.status = 500
    with pytest.raises(FailedAttempt):
        await world.deliver("bad")
    waiting = await world.webhooks.test("bad", by="ada")
    world.clock.micros += GIVE_UP_AFTER
    with pytest.raises(FailedAttempt):
        await world.deliver("bad")
    view = await world.webhooks.get("bad")
    assert (view.enabled, view.disabled_reason) == (False, "every delivery has failed for 5 days")
    disabled = [event for event in world.events if isinstance(event, WebhookDisabled)]
    assert disabled == [WebhookDisabled("bad", "https://bad.example/...", "every delivery has failed for 5 days")]
    assert await world.deliveries() == ["webhook.disabled", "webhook.test"]
    assert (await world.plain.execution(waiting.id)).state is State.CANCELLED, "and a bulk retry sends it later"
    with pytest.raises(NonRetryable, match="is disabled"):
        await world.deliver("bad")
    await world.webhooks.enable("bad", by="ada")
    world.sender.status = 204
    await world.deliver("bad")
    with pytest.raises(NonRetryable, match="was removed"):
        await world.deliver("nobody")


@pytest.mark.req("WHK-1", "REL-1")
async def test_a_crash_after_an_endpoint_was_disabled_loses_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """The delivery that disabled it is rescued, and hands the event over."""
    world = World()
    await world.webhooks.create("https://gone.example/", id="gone", by="ada")
    await world.webhooks.create("https://well.example/", id="well", events=["webhook.disabled"], by="ada")
    world.sender.status = 410
    with monkeypatch.context() as patch:
        patch.setattr(world.hand_over, "disabled", _dies)
        with pytest.raises(KeyboardInterrupt):
            await world.deliver("gone")
    assert await world.deliveries() == []
    for _ in range(2):
        with pytest.raises(NonRetryable, match="is disabled"):
            await world.deliver("gone")
    assert await world.deliveries() == ["webhook.disabled"]
    await world.webhooks.disable("gone", by="ada")
    world.clock.micros += 1
    with pytest.raises(NonRetryable, match="disabled by ada"):
        await world.deliver("gone")
    assert await world.deliveries() == ["webhook.disabled"], "what an operator does is no news"


async def _dies(endpoint: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.req("WHK-1")
async def test_many_endings_for_many_endpoints_are_added_in_batches() -> None:
    world = World()
    for number in range(100):
        await world.webhooks.create("https://x.example/", id=f"b{number}", by="ada")
    finished = {"state": State.COMPLETED, "finished": world.clock.now(), "owner": None}
    world.plain.calls.clear()
    await world.hand_over.ended([world.row(f"01a1eac9-7aad-787a-b322-ce042656600{n}", **finished) for n in range(7)])
    sizes = [len(args[0]) for name, args in world.plain.calls if name == "add"]
    assert sizes == [500, 200]
    assert len({row.id for name, args in world.plain.calls if name == "add" for row in args[0]}) == 700


@pytest.mark.req("WHK-1")
async def test_commands_refuse_what_they_cannot_do() -> None:
    world = World()
    made = await world.webhooks.create("https://x.example/", id="a", format="slack", by="ada")
    for refused in (
        world.webhooks.create("https://x.example/", id="a", by="ada"),
        world.webhooks.rotate_secret("a", by="ada"),
    ):
        with pytest.raises(CommandRefused):
            await refused
    for wrong in (
        world.webhooks.create("mailto:a@b.example", format="email", by="ada"),
        world.webhooks.create("https://x.example/", scheme="v2", by="ada"),
        world.webhooks.create("https://x.example/", secret="whsk_x", by="ada"),
        world.webhooks.update("a", {"secrets": []}, by="ada"),
        world.webhooks.update("a", {"events": ["all"]}, by="ada"),
    ):
        with pytest.raises(InvalidValue):
            await wrong
    await world.webhooks.update("a", {"description": "new"}, by="ada", seen=made.webhook.tag)
    with pytest.raises(Exception, match="has changed since it was read"):
        await world.webhooks.remove("a", by="ada", seen=made.webhook.tag)
    for number in range(99):
        await world.webhooks.create("https://x.example/", id=f"b{number}", by="ada")
    with pytest.raises(InvalidValue, match="at most 100"):
        await world.webhooks.create("https://x.example/", by="ada")


@pytest.mark.req("OBS-7")
async def test_an_event_that_cannot_be_rendered_holds_nothing_up() -> None:
    world = World()
    await world.webhooks.create("https://x.example/", by="ada")
    bad = world.row(state=State.COMPLETED, finished=world.clock.now(), result_json="{", number=1)
    good = world.row("01a1eac9-7aad-787a-b322-ce0426566777", state=State.COMPLETED, finished=world.clock.now())
    await world.hand_over.ended([bad, good])
    assert await world.deliveries() == ["execution.completed"]
    assert [type(event).__name__ for event in world.events] == ["Trouble"]


@pytest.mark.req("WHK-1")
async def test_asymmetric_signatures_show_their_public_key() -> None:
    pytest.importorskip("cryptography")
    world = World()
    made = await world.webhooks.create("https://x.example/", id="a", scheme="v1a", by="ada")
    rotated = await world.webhooks.rotate_secret("a", by="ada")
    assert made.secret is not None
    assert made.secret.reveal().startswith("whsk_")
    assert (made.webhook.public_key or "")[:5] == (rotated.webhook.public_key or "")[:5] == "whpk_"
    assert made.webhook.public_key != rotated.webhook.public_key
    await world.deliver("a")
    signatures = world.sender.sent[-1][1]["webhook-signature"].split()
    assert [each.partition(",")[0] for each in signatures] == ["v1a", "v1a"], "both secrets sign"


@pytest.mark.req("WHK-1", "SEC-4")
async def test_an_error_that_repeats_the_address_of_a_mail_shows_its_host_only() -> None:
    class Refusing:
        async def send(self, to: str, subject: str, text: str, deadline: float) -> None:
            raise OSError(f"550 {to} is unknown")

    world = World()
    await world.plain.write_entries([EntryWrite(entry=entry_of(Endpoint(**MAIL)))])
    world.deliverer._mailer = Refusing()
    with pytest.raises(FailedAttempt, match=r"^550 the address is unknown \(mailto:\.\.\.@x\.example\)$"):
        await world.deliver("mail", body='{"type":"webhook.other","timestamp":"","data":{}}')


MAIL: Any = {"id": "mail", "url": "mailto:ada@x.example", "format": "email", "created": 1, "created_by": "ada"}
