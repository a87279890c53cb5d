"""Expand first, contract later: which steps a migration applies, and what refuses it."""

from __future__ import annotations

import pytest

from mainspring.model.errors import ConfigurationError, SchemaMismatch
from mainspring.model.store.messages import WorkerInfo
from mainspring.model.store.schema import SchemaAt, SchemaSteps, refuse_contraction

OLD = SchemaSteps(base=2, newest=2, oldest=2)
NEW = SchemaSteps(base=2, newest=5, oldest=3, contracts={4: "0.3.0"})


def worker(version: str) -> WorkerInfo:
    return WorkerInfo(id="w", host="here", pid=1, version=version)


@pytest.mark.req("UPG-1")
def test_expanding_steps_leave_the_number_that_the_release_before_compares() -> None:
    fresh = SchemaAt()
    assert NEW.pending(fresh) == [1, 2, 3, 5]
    assert [step for step in NEW.pending(fresh) if NEW.raises_required(step)] == [1, 2]
    expanded = SchemaAt(required=2, expanded=5)
    assert (NEW.pending(expanded), NEW.contractions(expanded)) == ([], [4])
    OLD.refuse_newer(expanded, "schema")
    assert OLD.pending(expanded) == []  # the release before, started again, changes nothing
    assert NEW.missing(SchemaAt(2, 3), contract=True) == [5, 4]
    assert NEW.raises_required(4)


@pytest.mark.req("UPG-1")
def test_a_contracted_schema_is_refused_by_the_release_before() -> None:
    contracted = SchemaAt(required=4, expanded=5)
    assert NEW.contractions(contracted) == []
    NEW.refuse_newer(contracted, "schema")
    with pytest.raises(SchemaMismatch, match="is at 4, this release needs 2; update this installation"):
        OLD.refuse_newer(contracted, "schema")


@pytest.mark.req("UPG-1")
def test_a_release_works_from_its_oldest_step_on() -> None:
    NEW.refuse_older(SchemaAt(2, 3))
    with pytest.raises(SchemaMismatch, match="is at 2, this release needs 3; run `mainspring db migrate`"):
        NEW.refuse_older(SchemaAt(2, 2))


@pytest.mark.req("UPG-1")
@pytest.mark.parametrize("version", ["0.1.0", "0.2.9", ""])
def test_contracting_waits_for_workers_of_older_releases(version: str) -> None:
    with pytest.raises(ConfigurationError, match=r"step 4 takes away what releases before 0\.3\.0 need; update"):
        refuse_contraction(NEW, SchemaAt(2, 5), [worker("0.3.0"), worker(version)])
    refuse_contraction(NEW, SchemaAt(2, 5), [worker("0.3.0"), worker("0.10.0")])
    refuse_contraction(NEW, SchemaAt(4, 5), [worker(version)])  # it is done
