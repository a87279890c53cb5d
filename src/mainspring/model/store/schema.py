"""How the schema of a database moves on while two releases share it: expand first, contract later.

Steps are numbered in one sequence. An expanding step only adds (tables, indexes, nullable columns), so the release
before keeps working; it is applied when a store opens. A contracting step removes what only older releases need;
`mainspring db migrate --contract` applies it once none of those runs any more.

A database stores two numbers. `required` is the step that a release must know to use the database: only a contracting
step raises it, and every release refuses a number that it does not know. `expanded` is the last expanding step that was
applied.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec

from ..errors import ConfigurationError, SchemaMismatch
from .messages import WorkerInfo


class SchemaAt(msgspec.Struct, frozen=True):
    """The state of the schema of a database. Both numbers are 0 if it has none of our tables."""

    required: int = 0
    expanded: int = 0


class SchemaSteps(msgspec.Struct, frozen=True, kw_only=True):
    """The steps that a release knows for one kind of database. The steps up to `base` are older than the two numbers,
    and each raises `required`. `contracts` names the contracting steps, each with the first release of Mainspring that
    does not need what it removes. `oldest` is the expanding step that this release needs at least."""

    base: int
    newest: int
    oldest: int
    contracts: dict[int, str] = {}

    def pending(self, found: SchemaAt) -> list[int]:
        """The expanding steps that are missing, in order."""
        return [step for step in range(found.expanded + 1, self.newest + 1) if step not in self.contracts]

    def contractions(self, found: SchemaAt) -> list[int]:
        """The contracting steps that have not been applied, in order."""
        return [step for step in sorted(self.contracts) if step > found.required]

    def missing(self, found: SchemaAt, *, contract: bool) -> list[int]:
        """The steps that a migration applies: expanding steps first, because contracting steps rely on them."""
        return self.pending(found) + (self.contractions(found) if contract else [])

    def raises_required(self, step: int) -> bool:
        return step <= self.base or step in self.contracts

    def refuse_newer(self, found: SchemaAt, place: str) -> None:
        """Raise an error if a newer release has removed what this one needs. `place` is how applications are separated
        in this kind of database, such as a schema."""
        if found.required > self.newest:
            remedy = f"update this installation of mainspring, or use a {place} of its own"
            raise SchemaMismatch(found.required, self.newest, remedy)

    def refuse_older(self, found: SchemaAt) -> None:
        """For a store that must not migrate: raise an error if the database lacks what this release needs."""
        if found.expanded < self.oldest:
            raise SchemaMismatch(found.expanded, self.oldest)


def refuse_contraction(steps: SchemaSteps, found: SchemaAt, live: Collection[WorkerInfo]) -> None:
    """Raise an error if a running worker belongs to a release that needs what the contracting steps would remove."""
    for step in steps.contractions(found):
        first = steps.contracts[step]
        for worker in live:
            if release_numbers(worker.version) < release_numbers(first):
                raise ConfigurationError(
                    f"contract: worker {worker.id} on {worker.host} runs Mainspring {worker.version or 'unknown'}, and "
                    f"step {step} takes away what releases before {first} need; update that process first"
                )


def release_numbers(version: str) -> tuple[int, ...]:
    """The numbers of a release, for comparison.

    >>> release_numbers("0.10.0") > release_numbers("0.9.1")
    True
    """
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])
