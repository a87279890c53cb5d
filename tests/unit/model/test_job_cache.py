"""Decoded specifications of jobs are cached, but only a few of those with many values."""

from __future__ import annotations

import msgspec
import pytest

from mainspring.model.job import effective_spec


@pytest.mark.req("SEC-2")
def test_specifications_are_decoded_once_and_few_of_those_with_many_values_are_kept() -> None:
    small, large = (
        [msgspec.json.encode({"handler": "takes", "params": {"number": n, "lists": lists}}).decode() for n in range(50)]
        for lists in ([], [[]] * 1_000)
    )
    decoded = [effective_spec(text, "{}") for text in small]
    assert all(effective_spec(text, "{}") is spec for text, spec in zip(small, decoded, strict=True))
    decoded = [effective_spec(text, "{}") for text in large]
    assert effective_spec(large[-1], "{}") is decoded[-1]
    assert effective_spec(large[0], "{}") is not decoded[0]
