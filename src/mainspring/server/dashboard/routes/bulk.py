"""`/dashboard/bulk`: bulk actions. Each begins with a dry run, `/dashboard/bulk/new`, whose address says what is meant:
`?target=executions&action=retry&status=failed&queue=mail`, or `&id=...&id=...` for items by name."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, get_args

import msgspec
from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from ....core.bulk.commands import MOST_PROBED, PREVIEW_PATIENCE, BulkRequest
from ....core.bulk.rules import DONE_WORDS, MAKES_EXECUTIONS, outcome, proposed_probe
from ....core.errors.records import ErrorGroupNotFound
from ....core.filters.fields import read_fields
from ....core.queries.queries import EXECUTION_ID
from ....core.render.masking import shown_params
from ....core.views.execution import Execution
from ....core.views.records import BulkAction, bulk_view
from ....model.bulk import ACTIONS, BulkItemRow, BulkPreview, BulkTarget, ItemStatus
from ....model.errors import BulkNotFound, ExecutionNotFound, InvalidValue
from ....model.values.reading import choice
from ...access import Role, needs
from .. import format
from ..filters import NOUNS, TABLES, filter_query, filter_words, read_filter
from ..parameter_fields import read_json_object
from ..visit import Operating, PageRoute, Viewing, Visit

router = APIRouter(prefix="/dashboard/bulk", route_class=PageRoute, include_in_schema=False)

OVER = 50
"""How many actions that are over are listed."""
ITEMS = 100
PROBED = 20
UNDONE = 200
"""The most items of an action that can be undone in one step."""
PATIENCE = 0.1
"""Seconds for which a dry run counts what no index counts, unless the visitor asks for more."""
OPPOSITES = {"pause": "resume", "resume": "pause", "mute": "unmute", "unmute": "mute"}
DANGEROUS = ("cancel", "delete")
SKIPS = {"already_retried": "already retried", "with_parent": "run again by their parents"}
"""Why items are left out."""
TYPED = ("pace", "probe", "note", "params", "remove")
"""What a visitor enters on the page of the dry run; an address may suggest it."""
_OWN = {"target", "action", "id", "count", *TYPED}


class Choice(msgspec.Struct, frozen=True):
    """What the address of a dry run asks for."""

    target: BulkTarget
    action: str
    ids: list[str]
    filter: dict[str, Any]

    @property
    def words(self) -> str:
        if self.ids:
            return format.plural(len(self.ids), *NOUNS[self.target]) + ", chosen one by one"
        return filter_words(self.target, self.filter)

    def request(self, params: Mapping[str, Any] | None, remove: list[str]) -> BulkRequest:
        return BulkRequest(
            self.action,
            self.target,
            ids=self.ids or None,
            filter=None if self.ids else self.filter,
            params=params,
            remove=remove or None,
        )


@router.get("")
async def bulk_page(visit: Viewing) -> Response:
    found = [bulk_view(row) for row in await visit.engine.bulk_actions.list(OVER)]
    return visit.page(
        "bulk/list.html",
        open=[_named(visit, each) for each in found if not each.over],
        over=[_named(visit, each) for each in found if each.over],
    )


# --- dry run and start ------------------------------------------------------------------------------------------


@router.get("/new", dependencies=[Depends(needs(Role.OPERATOR, cookies=True))])
async def dry_run_page(visit: Viewing) -> Response:
    """Nothing happens before the form of this page is sent."""
    query = visit.request.query_params
    chosen = _choice(visit)
    if not chosen.ids and not chosen.filter:
        return visit.failed("Nothing is selected. Tick some rows, or filter the list.")
    return await _dry_run(visit, chosen, {name: query.get(name, "") for name in TYPED})


@router.post("/new")
async def start_bulk(sent: Operating) -> Response:
    """Start it, or with `step=preview` show what the parameters entered would do. What is refused is shown on the page
    itself, with all that was entered."""
    visit, chosen = sent.visit, _choice(sent.visit)
    typed = {name: sent.form.get(name) or "" for name in TYPED}
    if sent.form.get("step") == "preview":
        return await _dry_run(visit, chosen, typed)
    try:
        request = chosen.request(_params(typed), _names(typed["remove"]))
        begun = await visit.engine.bulk_actions.start(
            request,
            pace=typed["pace"] or None,
            probe=sent.form.whole("probe") or 0,
            note=typed["note"] or None,
            by=visit.by,
            role=visit.principal.role,
        )
    except InvalidValue as error:
        return await _dry_run(visit, chosen, typed, error)
    words = f"{VERBS[begun.action]} {_many(begun.total, begun.total_is_exact, begun.target)}: it has begun."
    return visit.done(words, visit.url("bulk", begun.id))


VERBS = {name: name.capitalize() for actions in ACTIONS.values() for name in actions}


def _choice(visit: Visit) -> Choice:
    query = visit.request.query_params
    target: BulkTarget = choice("target", query.get("target", "executions"), get_args(BulkTarget))  # type: ignore[assignment]
    action = choice("action", query.get("action"), ACTIONS[target])
    table = TABLES[target]
    read_fields(table, {name: None for name in query if name not in _OWN}, 0)  # an unknown filter would be lost
    return Choice(target, action, [id for id in query.getlist("id") if id], read_filter(table, query))


def _params(typed: dict[str, str]) -> dict[str, Any] | None:
    return read_json_object("params", typed["params"]) if typed["params"] else None


def _names(text: str) -> list[str]:
    return [name for name in text.replace(",", " ").split() if name]


async def _dry_run(visit: Visit, chosen: Choice, typed: dict[str, str], error: InvalidValue | None = None) -> Response:
    preview: BulkPreview | None = None
    if chosen.action != "edit" or typed["params"] or typed["remove"]:
        try:
            request = chosen.request(_params(typed), _names(typed["remove"]))
            patience = PREVIEW_PATIENCE if visit.request.query_params.get("count") else PATIENCE
            preview = await visit.engine.bulk_actions.preview(request, role=visit.principal.role, patience=patience)
        except InvalidValue as refusal:
            if chosen.action != "edit":  # the address is wrong
                raise
            error = error or refusal
    left_out = Counter(item.code for item in (preview.sample if preview else ()) if item.status == "skipped")
    return visit.page(
        "bulk/new.html",
        400 if error is not None else 200,
        chosen=chosen,
        preview=preview,
        sample=[] if preview is None else await _sample(visit, preview),
        refused=_refusals(preview),
        left_out=left_out,
        skips=SKIPS,
        list_url=_list_url(visit, chosen.target, chosen.filter),
        confirm=f"{VERBS[chosen.action]} {_to_do(preview, left_out.total())}",
        typed={**typed, "probe": typed["probe"] or _probe(chosen, preview)},
        error=error,
        probes=chosen.target == "executions" and chosen.action in MAKES_EXECUTIONS,
        most_probed=MOST_PROBED,
        dangerous=chosen.action in DANGEROUS,
    )


def _refusals(preview: BulkPreview | None) -> Counter[str]:
    items = () if preview is None else preview.sample
    return Counter(item.error for item in items if item.status == "refused" and item.error)


def _probe(chosen: Choice, preview: BulkPreview | None) -> int:
    return 0 if preview is None or chosen.target != "executions" else proposed_probe(chosen.action, preview.total)


def _to_do(preview: BulkPreview | None, left_out: int) -> str:
    """How many items the action is for. Those left out count as far as they are known: a sample may not be all."""
    if preview is None:
        return ""
    if not left_out or not preview.total_is_exact:
        return _many(preview.total, preview.total_is_exact, preview.target)
    if preview.total == len(preview.sample):
        return _many(preview.total - left_out, True, preview.target)
    return f"up to {_many(preview.total, True, preview.target)}"


def _many(total: int, exact: bool, target: str) -> str:
    """
    >>> _many(1204, True, "executions"), _many(10000, False, "jobs")
    ('1,204 executions', 'more than 10,000 jobs')
    """
    words = format.plural(total, *NOUNS[target])
    return words if exact else f"more than {words}"


class SampleRow(msgspec.Struct, frozen=True):
    """An item of a dry run: what it is, and what would become of it."""

    item: BulkItemRow
    execution: Execution | None = None
    words: str = ""


async def _sample(visit: Visit, preview: BulkPreview) -> list[SampleRow]:
    if preview.target == "executions":
        found = await asyncio.gather(*(_execution(visit, item.id) for item in preview.sample))
        return [SampleRow(item, each) for item, each in zip(preview.sample, found, strict=True)]
    if preview.target == "errors":
        messages = await asyncio.gather(*(_message(visit, item.id) for item in preview.sample))
        return [SampleRow(item, words=each) for item, each in zip(preview.sample, messages, strict=True)]
    states = {view.name: view.state.value for view in await visit.engine.queries.named([i.id for i in preview.sample])}
    return [SampleRow(item, words=states.get(item.id, "")) for item in preview.sample]


async def _execution(visit: Visit, id: str) -> Execution | None:
    try:
        return Execution(await visit.engine.queries.get(id)) if EXECUTION_ID.fullmatch(id) else None
    except ExecutionNotFound:
        return None


async def _message(visit: Visit, id: str) -> str:
    try:
        group = await visit.engine.errors.get(id)
    except ErrorGroupNotFound:
        return ""
    return format.error_title(group)


def _list_url(visit: Visit, target: str, filter: Mapping[str, Any]) -> str | None:
    """The list of what the filter finds now."""
    return visit.url(target, **filter_query(filter)) if filter else None


# --- one action -------------------------------------------------------------------------------------------------


class NamedBulk(msgspec.Struct, frozen=True):
    """A bulk action with its words. `list_url` leads to what its filter finds now."""

    action: BulkAction
    title: str
    chosen: str
    list_url: str | None


def _named(visit: Visit, bulk: BulkAction) -> NamedBulk:
    """An action on error groups has both a filter and the ids that it found."""
    chosen = Choice(bulk.target, bulk.action, [] if bulk.filter else list(bulk.ids), bulk.filter)
    title = f"{VERBS[bulk.action]} {_many(bulk.total, bulk.total_is_exact, bulk.target)}"
    return NamedBulk(bulk, title, chosen.words, _list_url(visit, bulk.target, bulk.filter))


@router.get("/{id}")
async def one_bulk_page(
    visit: Viewing,
    id: str,
    status: ItemStatus | None = None,
    cursor: Annotated[str | None, Query(max_length=20)] = None,
) -> Response:
    bulk = bulk_view(await visit.engine.bulk_actions.get(_known(id)))
    items, next_cursor = await visit.engine.bulk_actions.items(id, status, ITEMS, cursor)
    return visit.page(
        "bulk/one.html",
        named=_named(visit, bulk),
        bulk=bulk,
        new_values=shown_params(bulk),
        pace=_pace_words(bulk.pace),
        items=items,
        outcome=lambda item: outcome(bulk.action, item),
        done_word=DONE_WORDS.get(bulk.action, "done"),
        next_cursor=next_cursor,
        wanted=status,
        skips=SKIPS,
        statuses=get_args(ItemStatus),
        probed=await asyncio.gather(*(_execution(visit, each) for each in bulk.probed[:PROBED])),
        undo=await _undo(visit, bulk),
    )


@router.post("/{id}/abort")
async def abort_bulk(sent: Operating, id: str) -> Response:
    visit = sent.visit
    done = await visit.engine.bulk_actions.abort(_known(id), by=visit.by, reason=sent.form.get("reason"))
    total = _many(done.total, done.total_is_exact, done.target)
    words = f"Aborted after {done.handled:,} of {total}. Items already handled stay as they are."
    return visit.done(words, visit.url("bulk", id))


def _pace_words(pace: float | None) -> str:
    """
    >>> _pace_words(0.5), _pace_words(100), _pace_words(None)
    ('30 items a minute at most', '100 items a second at most', 'as fast as possible')
    """
    if pace is None:
        return "as fast as possible"
    count, unit = next(
        (pace * seconds, unit)
        for seconds, unit in ((1, "second"), (60, "minute"), (3_600, "hour"))
        if pace * seconds >= 1 or unit == "hour"
    )
    return f"{round(count, 2):,g} items a {unit} at most"


def _known(id: str) -> str:
    if not EXECUTION_ID.fullmatch(id):
        raise BulkNotFound(id)
    return id


class Undo(msgspec.Struct, frozen=True):
    words: str
    url: str


async def _undo(visit: Visit, bulk: BulkAction) -> Undo | None:
    """The dry run of the opposite, on exactly those items that this action has changed."""
    opposite = OPPOSITES.get(bulk.action)
    if opposite is None or not visit.operates or not bulk.over or not 0 < bulk.done <= UNDONE:
        return None
    items, _ = await visit.engine.bulk_actions.items(bulk.id, "done", UNDONE)
    words = f"{VERBS[opposite]} {format.plural(len(items), *NOUNS[bulk.target])} again"
    url = visit.url("bulk", "new", target=bulk.target, action=opposite, id=[item.id for item in items])
    return Undo(words, url)
