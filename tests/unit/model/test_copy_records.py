"""Keys of records: those of entries sort as kind, scope and key do, whatever is in them, and give their parts back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mainspring.model.store.copy_records import entry_key, key_of, place_of
from mainspring.model.store.entries import Entry

KINDS = st.sampled_from(["backfill", "backfill_plan", "window"])
TEXTS = st.text(st.sampled_from("\x00\x01\x02\x03 aé\U0010ffff"), max_size=4)
PLACES = st.tuples(KINDS, TEXTS, TEXTS)


@given(PLACES, PLACES)
def test_keys_of_entries_sort_as_their_parts_do(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    assert (entry_key(*one) < entry_key(*other)) == (one < other)


@given(PLACES)
def test_a_key_gives_its_parts_back(place: tuple[str, str, str]) -> None:
    assert place_of(entry_key(*place)) == place


def test_the_key_of_an_entry_lies_after_the_empty_one() -> None:
    assert key_of(Entry(kind="window", key="")) > ""
    assert place_of("") < ("backfill", "", "")
