"""The sorted list of the memory store that is used up from its beginning."""

from __future__ import annotations

import random

from mainspring.stores.memory.sorted_queue import SortedQueue


def test_it_is_a_sorted_list_whatever_happens_to_it() -> None:
    chance = random.Random(1)
    queue: SortedQueue[tuple[int, str]] = SortedQueue()
    model: list[tuple[int, str]] = []
    for step in range(20_000):
        match chance.randrange(8):
            case 0 | 1 | 2 | 3 | 4:
                item = (chance.randrange(50) if chance.random() < 0.1 else 50 + step, str(step))
                queue.add(item)
                model = sorted([*model, item]) if model and item < model[-1] else [*model, item]
            case 5:
                count = min(chance.randrange(6), len(model))
                queue.drop_first(count)
                del model[:count]
            case 6 if model:
                item = chance.choice(model[:20])
                assert queue.remove(item)
                model.remove(item)
                assert not queue.remove(item)
            case _:
                assert queue.count_below((50 + step, "")) == sum(item < (50 + step, "") for item in model)
        if step % 50 == 0:
            assert queue.first(10) == model[:10]
            assert len(queue) == len(model)
        if len(model) > 200:
            queue.drop_first(150)
            del model[:150]
    assert queue.first(len(model)) == model
