"""Links between jobs: finding the dependents of a job.

A job names its parents in its own specification, and that is authoritative. So that the ending of a parent finds its
dependents, each link is also an entry, keyed parent first, and the parent's specification is marked (`feeds`). Links
are added before the job that needs them is written. Readers ignore a link that no longer holds, and `LinkUpkeep`
removes it later. Nothing is lost by that, however many nodes and versions of the code run side by side:

- A link is removed only after it has been useless for an hour, and only if nobody added it again in the meantime.
- A parent's mark is removed before its last link, and only if nobody has written the parent since it was read. Adding a
  link always writes the parent afterwards.
- A link or mark that is missing is restored: the process that should have set it may have died.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from ...model.errors import InvalidValue, StoreUnavailable, nearest
from ...model.events import Trouble
from ...model.job import Job, JobSpec, effective_spec, encode_spec
from ...model.store.entries import Entry, EntryWrite
from ...model.store.messages import JobQuery, JobWrite
from ...model.time.instants import SECOND, Micros
from ..declaring.dependency_options import find_cycle, refuse_cycle
from ..loops import Emit, trouble
from ..ports import Store
from .compatibility import ancestry, describe_conflict, never_meet
from .joins import KIND, forget_joins

LINKS = ""
"""The scope of the links. The scope of a join is the name of the waiting job, which is never empty."""
PAGE = 1_000
SUGGESTED_FROM = 1_000
REMEMBERED = 10_000
UPKEEP_BATCH = 500
KEPT_USELESS: Micros = 3_600 * SECOND


class Link(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of a link: since when its job is known not to need it."""

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
    """Reads and writes the links between jobs, and checks them before a job is written."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._fresh: set[str] = set()
        self._acyclic: dict[str, int] = {}

    # --- reading ------------------------------------------------------------------------------------------
    async def of(self, name: str) -> list[Job]:
        """The jobs that depend on this one."""
        names = [link_of(each)[1] async for each in self._links(f"{name}/", f"{name}0")]  # "0" follows "/" in ASCII
        found = await self._store.jobs(names) if names else []
        return [job for job in found if name in job.spec.after]

    async def names_of(self, name: str) -> tuple[str, ...]:
        return tuple(job.name for job in await self.of(name))

    async def handed_to(self, name: str, emit: Emit) -> list[Job]:
        """The jobs that an ending of this one is handed over to. Two edits at one instant can close a cycle: jobs in a
        cycle are not handed over to, and reported."""
        acyclic = []
        for job in await self.of(name):
            if (way := await self._cycle(job)) is None:
                acyclic.append(job)
            else:
                cycle = f"job {job.name!r} comes after itself: {' after '.join(way)}"
                emit(
                    Trouble(
                        "dependencies",
                        f"{cycle}. {job.name!r} does not run after {name!r} until one of them is changed",
                    )
                )
        return acyclic

    async def _cycle(self, job: Job) -> list[str] | None:
        """Each version of a job is checked once. The job that closes a cycle is written last, so checking that version
        finds the whole cycle."""
        if self._acyclic.get(job.id) == job.version:
            return None
        way = find_cycle((await self._parents({job.name: job.spec.after})).get, job.name)
        if way is None:
            if len(self._acyclic) >= REMEMBERED:
                self._acyclic.clear()
            self._acyclic[job.id] = job.version
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
        """Jobs declared in code: checked, their links added, those that have dependents marked."""
        if not specs:
            return []
        wanted = {(parent, name) for name, spec in specs for parent in spec.after}
        known = [entry async for entry in self._links()]
        if wanted:
            await self._check_declared(dict(specs), {parent for parent, _ in wanted})
            await self.add_links(wanted - {link_of(each) for each in known if link_body(each).useless_since is None})
        feeding = {parent for parent, _ in wanted} | {link_of(each)[0] for each in known}
        return [(name, msgspec.structs.replace(spec, feeds=True) if name in feeding else spec) for name, spec in specs]

    async def mark_parents(self, specs: Iterable[tuple[str, JobSpec]]) -> None:
        """Mark parents that other code declares, that operators created, or that existed before."""
        await self.mark({parent for _, spec in specs for parent in spec.after})

    async def prepare(self, name: str, spec: JobSpec) -> JobSpec:
        """Prepare a job that is about to be created or edited: refuse a cycle or an unknown parent, add its links,
        and mark it if it has dependents."""
        if spec.after:
            missing = set(spec.after) - {name} - {job.name for job in await self._store.jobs(list(spec.after))}
            if missing:
                raise await self._unknown(sorted(missing)[0])
            refuse_cycle((await self._parents({name: spec.after})).get, name)
            await self.add_links({(parent, name) for parent in spec.after})
            await self.mark(spec.after)
        if not spec.feeds and await self._store.list_entries(KIND, LINKS, after=f"{name}/", before=f"{name}0", limit=1):
            return msgspec.structs.replace(spec, feeds=True)
        return spec

    async def add_links(self, links: Iterable[tuple[str, str]]) -> None:
        links = sorted(links)
        writes = [EntryWrite(entry=Entry(kind=KIND, scope=LINKS, key=link_key(*link))) for link in links]
        if writes:
            self._fresh |= {parent for parent, _ in links}
            await self._store.write_entries(writes)

    async def mark(self, names: Iterable[str]) -> None:
        """Mark these jobs as having dependents. Parents of links that were just added are written even if they are
        marked already, because another process may be about to remove the mark. A lost race is tried again."""
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
        """Operators' changes override the code, so they count here too. A parent that does not exist is only warned
        about: another application may declare it later."""
        stored = await self._store.jobs(sorted(specs.keys() | parents))
        known = {job.name for job in stored} | specs.keys()
        for missing in sorted(parents - known):
            names = sorted(name for name, spec in specs.items() if missing in spec.after)
            guess = await self._nearest(missing, known, but=names)
            hint = f"; did you mean {guess!r}?" if guess else ""
            warning = f"job {', '.join(names)} comes after {missing!r}, which does not exist yet{hint}"
            warnings.warn(warning, UserWarning, stacklevel=2)
        after = {name: spec.after for name, spec in specs.items()}
        after |= {job.name: job.spec.after for job in stored if "after" in job.changed_fields}
        graph = await self._parents(after)
        for name in sorted(after):
            if after[name] and (way := find_cycle(graph.get, name)) is not None:
                refuse_cycle(graph.get, name, await self._to_revert(way, specs))
        await self._warn_of_incompatible_parents(specs, stored)

    async def _to_revert(self, way: Sequence[str], specs: Mapping[str, JobSpec]) -> str:
        """The remedy for a cycle that operators' edits closed: start-up fails until one of them is reverted."""
        found = []
        for job in await self._store.jobs(sorted(set(way))):
            said = specs[job.name] if job.name in specs else effective_spec(job.declared, "{}")
            if way[way.index(job.name) + 1] not in said.after:
                found.append(job.name)
        if not found:
            return ""
        edits = f"An operator changed `after` of {', '.join(map(repr, found))}"
        return f"{edits}; take that back with `mainspring jobs revert {found[0]} --database-url URL`"

    async def _warn_of_incompatible_parents(self, specs: Mapping[str, JobSpec], stored: Sequence[Job]) -> None:
        edited = {job.name: job for job in stored if job.name in specs and job.changed_fields}
        known = {
            name: effective_spec(encode_spec(spec), edited[name].overrides) if name in edited else spec
            for name, spec in specs.items()
        }
        joining = sorted(name for name, spec in known.items() if len(spec.after) > 1)
        family = await ancestry(self._store, known, joining)
        for name in joining:
            if (pair := never_meet(name, family)) is not None:
                warnings.warn(f"job {name!r} will never follow: {describe_conflict(pair)}", UserWarning, stacklevel=2)

    async def _parents(self, known: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
        """These jobs and all their ancestors, each with its parents."""
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
        stored = (await self._store.find_jobs(JobQuery(limit=SUGGESTED_FROM), 1)).names
        return nearest(name, {*stored, *declared}.difference(but))


def _marked(job: Job) -> JobWrite:
    return JobWrite(job=with_feeds(job, True), seen_version=job.version)


def with_feeds(job: Job, feeds: bool) -> Job:
    declared = msgspec.structs.replace(effective_spec(job.declared, "{}"), feeds=feeds)
    return job.with_changes(declared=encode_spec(declared))


# ---------------------------------------------------------------- upkeep


class LinkUpkeep:
    """Part of the janitor: restores missing links and removes useless ones, one batch at a time."""

    def __init__(self, store: Store, emit: Emit) -> None:
        self._store, self._emit = store, emit
        self._dependents = Dependents(store)
        self._up_to = ""

    async def run(self, jobs: Sequence[Job], now: Micros) -> None:
        """Restore what is missing for these jobs, then check the next batch of links."""
        for step in (partial(self._restore, jobs), partial(self._remove_useless, now)):
            try:
                await step()
            except StoreUnavailable:
                raise
            except Exception as error:
                self._emit(trouble("links between jobs", error))

    async def _restore(self, jobs: Sequence[Job]) -> None:
        needed = {(parent, job.name) for job in jobs for parent in _parents(job) or ()}
        if needed:
            found = await self._store.entries(KIND, LINKS, sorted(link_key(*link) for link in needed))
            await self._dependents.add_links(needed - {link_of(entry) for entry in found})
            await self._dependents.mark({parent for parent, _ in needed})

    async def _remove_useless(self, now: Micros) -> None:
        page = await self._store.list_entries(KIND, LINKS, after=self._up_to, limit=UPKEEP_BATCH)
        self._up_to = page[-1].key if len(page) == UPKEEP_BATCH else ""
        children = {job.name: job for job in await self._jobs({link_of(entry)[1] for entry in page})}
        over: dict[str, list[Entry]] = defaultdict(list)
        for entry in page:
            parent, child = link_of(entry)
            since = link_body(entry).useless_since
            if _needs(children.get(child), parent):
                if since is not None:
                    await self._write(entry, Link())
            elif since is None:
                await self._write(entry, Link(useless_since=now))
            elif since < now - KEPT_USELESS:
                over[parent].append(entry)
        for parent, entries in over.items():
            await self._remove(parent, entries, children, now)

    async def _remove(self, parent: str, over: list[Entry], children: dict[str, Job], now: Micros) -> None:
        found = await self._jobs({parent})
        left = await self._store.list_entries(KIND, LINKS, after=f"{parent}/", before=f"{parent}0", limit=len(over) + 1)
        if (
            found
            and found[0].spec.feeds
            and {(each.key, each.version) for each in left} <= {(each.key, each.version) for each in over}
        ):
            write = JobWrite(job=with_feeds(found[0], False), seen_version=found[0].version)
            if not (await self._store.write_jobs([write]))[0].won:
                return
        for _, child in map(link_of, over):
            if child not in children or len(_parents(children[child]) or ()) < 2:
                await forget_joins(self._store, child, now - KEPT_USELESS)
        await self._store.write_entries(
            [EntryWrite(entry=each, seen_version=each.version, remove=True) for each in over]
        )

    async def _write(self, entry: Entry, link: Link) -> None:
        changed = msgspec.structs.replace(entry, body=msgspec.json.encode(link).decode())
        await self._store.write_entries([EntryWrite(entry=changed, seen_version=entry.version)])

    async def _jobs(self, names: set[str]) -> list[Job]:
        return await self._store.jobs(sorted(names)) if names else []


def _parents(job: Job) -> tuple[str, ...] | None:
    """None for a job that this release cannot read."""
    return job.spec.after if job.readable else None


def _needs(child: Job | None, parent: str) -> bool:
    """A job that this release cannot read may need the link."""
    if child is None:
        return False
    parents = _parents(child)
    return parents is None or parent in parents
