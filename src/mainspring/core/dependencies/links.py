"""Which jobs come after which, found from the parent's side.

A job names its parents in its own specification; that is what counts. So that a parent's ending finds those that come
after it, each link is on the shelf too, parent first, and the parent's specification says that it feeds somebody.
Links are laid before the job that needs them is written. One that no longer holds is passed over by whoever reads it,
and removed in time (`core.dependencies.link_upkeep`).
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

import msgspec

from ...model.errors import InvalidValue, nearest
from ...model.events import Trouble
from ...model.job import Job, JobSpec, effective_spec, encode_spec
from ...model.store.entries import Entry, EntryWrite
from ...model.store.messages import JobWrite
from ...model.time.instants import Micros
from ..declaring.dependency_options import find_cycle, refuse_cycle
from ..loops import Emit
from ..ports import Store
from .compatibility import ancestry, never_meet, told
from .joins import KIND

LINKS = ""
"""The scope of the links; that of joins is the name of the job that waits, which is never empty."""
PAGE = 1_000
SUGGESTED_FROM = 1_000
REMEMBERED = 10_000


class Link(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a link says besides its key: since when its job is known not to need it."""

    useless_since: Micros | None = None


def link_key(parent: str, child: str) -> str:
    return f"{parent}/{child}"


def link_of(entry: Entry) -> tuple[str, str]:
    """Parent and child."""
    parent, _, child = entry.key.partition("/")
    return parent, child


def link_body(entry: Entry) -> Link:
    return msgspec.json.decode(entry.body, type=Link)


class Dependents:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._fresh: set[str] = set()
        self._straight: dict[str, int] = {}

    # --- reading ------------------------------------------------------------------------------------------
    async def of(self, name: str) -> list[Job]:
        """The jobs that come after this one, by name."""
        names = [link_of(each)[1] async for each in self._links(f"{name}/", f"{name}0")]  # "0" is what follows "/"
        found = await self._store.jobs(names) if names else []
        return [job for job in found if name in job.spec.after]

    async def names_of(self, name: str) -> tuple[str, ...]:
        return tuple(job.name for job in await self.of(name))

    async def handed_to(self, name: str, emit: Emit) -> list[Job]:
        """The jobs that an ending of this one is handed over to. Two edits at one instant can make jobs come after each
        other; what would go round for ever is not handed over, and told of."""
        straight = []
        for job in await self.of(name):
            if (way := await self._way_round(job)) is None:
                straight.append(job)
            else:
                told = f"job {job.name!r} comes after itself: {' after '.join(way)}. It does not follow {name!r}"
                emit(Trouble("dependencies", f"{told} until one of them is changed"))
        return straight

    async def _way_round(self, job: Job) -> list[str] | None:
        """Each version of a job is found to be straight once: of the jobs in a circle, the one that closed it was
        written last, and whoever looks at that version finds all the others."""
        if self._straight.get(job.id) == job.version:
            return None
        way = find_cycle(await self._parents({job.name: job.spec.after}), job.name)
        if way is None:
            if len(self._straight) >= REMEMBERED:
                self._straight.clear()
            self._straight[job.id] = job.version
        return way

    async def _links(self, after: str = "", before: str | None = None) -> AsyncIterator[Entry]:
        while True:
            page = await self._store.list_entries(KIND, LINKS, after=after, before=before, limit=PAGE)
            for entry in page:
                yield entry
            if len(page) < PAGE:
                return
            after = page[-1].key

    # --- writing ------------------------------------------------------------------------------------------
    async def declared(self, specs: Sequence[tuple[str, JobSpec]]) -> list[tuple[str, JobSpec]]:
        """Jobs of code, checked, with the mark on those that others come after. Their links are laid."""
        if not specs:
            return []
        wanted = {(parent, name) for name, spec in specs for parent in spec.after}
        known = [entry async for entry in self._links()]
        if wanted:
            await self._check_declared(dict(specs), {parent for parent, _ in wanted})
            await self.lay(wanted - {link_of(each) for each in known if link_body(each).useless_since is None})
        feeding = {parent for parent, _ in wanted} | {link_of(each)[0] for each in known}
        return [(name, msgspec.structs.replace(spec, feeds=True) if name in feeding else spec) for name, spec in specs]

    async def mark_parents(self, specs: Iterable[tuple[str, JobSpec]]) -> None:
        """Parents that code declares elsewhere, that operators made, or that were there before, learn of it too."""
        await self.mark({parent for _, spec in specs for parent in spec.after})

    async def prepare(self, name: str, spec: JobSpec) -> JobSpec:
        """A job that is about to be written over the interface: refused if it comes after itself or after a job that
        does not exist; else linked, and marked if others come after it."""
        if spec.after:
            missing = set(spec.after) - {name} - {job.name for job in await self._store.jobs(list(spec.after))}
            if missing:
                raise await self._unknown(sorted(missing)[0])
            refuse_cycle(await self._parents({name: spec.after}), name)
            await self.lay({(parent, name) for parent in spec.after})
            await self.mark(spec.after)
        if not spec.feeds and await self._store.list_entries(KIND, LINKS, after=f"{name}/", before=f"{name}0", limit=1):
            return msgspec.structs.replace(spec, feeds=True)
        return spec

    async def lay(self, links: Iterable[tuple[str, str]]) -> None:
        links = sorted(links)
        writes = [EntryWrite(entry=Entry(kind=KIND, scope=LINKS, key=link_key(*link))) for link in links]
        if writes:
            self._fresh |= {parent for parent, _ in links}
            await self._store.write_entries(writes)

    async def mark(self, names: Iterable[str]) -> None:
        """Parents of links that were just laid are written even if they have the mark: somebody may be about to take it
        away. A lost race means that somebody else changed the job meanwhile: look again."""
        left = set(names)
        while left:
            found = await self._store.jobs(sorted(left))
            unmarked = [job for job in found if not job.spec.feeds or job.name in self._fresh]
            written = await self._store.write_jobs([_marked(job) for job in unmarked]) if unmarked else []
            lost = {job.name for job, each in zip(unmarked, written, strict=True) if not each.won}
            self._fresh -= left - lost
            left = lost

    # --- checking -----------------------------------------------------------------------------------------
    async def _check_declared(self, specs: Mapping[str, JobSpec], parents: set[str]) -> None:
        """What operators changed stays on top of the code, so it counts here too. A parent that does not exist may be
        on its way: another application may declare it."""
        stored = await self._store.jobs(sorted(specs.keys() | parents))
        known = {job.name for job in stored} | specs.keys()
        for missing in sorted(parents - known):
            names = sorted(name for name, spec in specs.items() if missing in spec.after)
            guess = await self._nearest(missing, known, but=names)
            hint = f"; did you mean {guess!r}?" if guess else ""
            told = f"job {', '.join(names)} comes after {missing!r}, which does not exist yet{hint}"
            warnings.warn(told, UserWarning, stacklevel=2)
        after = {name: spec.after for name, spec in specs.items()}
        after |= {job.name: job.spec.after for job in stored if "after" in job.changed_fields}
        graph = await self._parents(after)
        for name in sorted(after):
            if after[name] and (way := find_cycle(graph, name)) is not None:
                refuse_cycle(graph, name, await self._to_revert(way, specs))
        await self._warn_of_strangers(specs, stored)

    async def _to_revert(self, way: Sequence[str], specs: Mapping[str, JobSpec]) -> str:
        """How to open a circle that operators' edits closed: start-up fails until somebody does."""
        found = []
        for job in await self._store.jobs(sorted(set(way))):
            said = specs[job.name] if job.name in specs else effective_spec(job.declared, "{}")
            if way[way.index(job.name) + 1] not in said.after:
                found.append(job.name)
        if not found:
            return ""
        edits = f"An operator changed `after` of {', '.join(map(repr, found))}"
        return f"{edits}; take that back with `mainspring jobs revert {found[0]} --database-url URL`"

    async def _warn_of_strangers(self, specs: Mapping[str, JobSpec], stored: Sequence[Job]) -> None:
        edited = {job.name: job for job in stored if job.name in specs and job.changed_fields}
        known = {
            name: effective_spec(encode_spec(spec), edited[name].overrides) if name in edited else spec
            for name, spec in specs.items()
        }
        joining = sorted(name for name, spec in known.items() if len(spec.after) > 1)
        family = await ancestry(self._store, known, joining)
        for name in joining:
            if (pair := never_meet(name, family)) is not None:
                warnings.warn(f"job {name!r} will never follow: {told(pair)}", UserWarning, stacklevel=2)

    async def _parents(self, known: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
        """These jobs with their parents, and those with theirs, as far up as it goes."""
        graph = dict(known)
        while wanted := {parent for parents in graph.values() for parent in parents} - graph.keys():
            graph |= dict.fromkeys(wanted, ())
            graph |= {job.name: job.spec.after for job in await self._store.jobs(sorted(wanted))}
        return graph

    async def _unknown(self, name: str) -> InvalidValue:
        guess = await self._nearest(name)
        remedy = f"Did you mean {guess!r}?" if guess else "Create it first"
        return InvalidValue("after", name, "names of jobs that exist", remedy)

    async def _nearest(self, name: str, declared: Iterable[str] = (), but: Iterable[str] = ()) -> str | None:
        stored = [job.name for job in await self._store.jobs_after("", SUGGESTED_FROM)]
        return nearest(name, {*stored, *declared}.difference(but))


def _marked(job: Job) -> JobWrite:
    return JobWrite(job=with_feeds(job, True), seen_version=job.version)


def with_feeds(job: Job, feeds: bool) -> Job:
    declared = msgspec.structs.replace(effective_spec(job.declared, "{}"), feeds=feeds)
    return job.with_changes(declared=encode_spec(declared))
