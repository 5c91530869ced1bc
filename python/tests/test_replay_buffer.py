"""Goal: the replay buffer draws what its policy allows, and says what became of the rest.

Method: rollouts of known steps and groups are put in, the weights change, and what each policy draws, masks, recomputes or drops is
compared with what it must.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import logps, tokens
from rollstore import InvalidError, Plan
from rollstore.replay_buffer import ReplayBuffer


@pytest.fixture
def opened(tmp_path: Path) -> Any:
    """Opens buffers, and closes them at the end."""
    buffers: list[ReplayBuffer] = []

    def open_one(**options: Any) -> ReplayBuffer:
        options = {"max_staleness": 2, **options}
        buffers.append(ReplayBuffer.open(tmp_path / f"buffer-{len(buffers)}", **options))
        return buffers[-1]

    yield open_one
    for buffer in buffers:
        buffer.close()


Opened = Callable[..., ReplayBuffer]


def filled(buffer: ReplayBuffer, steps: range, count: int = 2, **columns: Any) -> None:
    """``count`` rollouts, one group, for each step; the policy is then at the last one."""
    for step in steps:
        buffer.advance(step)
        lens = [3] * count
        buffer.put(completion_ids=tokens(*lens), old_logps=logps(*lens), old_version=buffer.store.ref_version, group_ids=[step] * count, **columns)


def ages(buffer: ReplayBuffer, n: int = 100, **options: Any) -> list[int]:
    return sorted(buffer.sample(n, **options).ages.tolist())


def test_drop_ends_what_is_older_than_the_bound_and_counts_it(opened: Opened) -> None:
    buffer = opened(stale="drop")
    filled(buffer, range(1, 6))
    assert ages(buffer) == [0, 0, 1, 1, 2, 2]
    assert buffer.dropped == {"stale": 4} and buffer.store.stats()["retired_stale"] == 4
    assert buffer.advance(6) == 2 and len(buffer) == 4


def test_keep_serves_at_any_age_unless_the_draw_has_a_bound_of_its_own(opened: Opened) -> None:
    buffer = opened(stale="keep")
    filled(buffer, range(1, 6))
    assert ages(buffer) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert ages(buffer, max_staleness=0) == [0, 0]
    assert len(buffer) == 10, "a bound of one draw ends nothing"


def test_mask_keeps_the_shape_and_marks_what_must_not_count(opened: Opened) -> None:
    buffer = opened(stale="mask")
    filled(buffer, range(1, 6))
    sample = buffer.sample(100)
    assert len(sample) == 10 and (sample.mask == (sample.ages <= 2)).all() and sample.mask.sum() == 6


def test_recompute_computes_what_is_too_old_and_nothing_else(opened: Opened) -> None:
    buffer = opened(stale="recompute")
    filled(buffer, range(1, 6))
    computed: list[int] = []

    def compute(plan: Plan) -> list[Any]:
        computed.extend(plan.ids.tolist())
        return [np.full(int(n), -0.25, np.float32) for n in plan.lens]

    sample = buffer.sample(100, compute=compute)
    assert sample.old_logps is not None
    assert sorted(computed) == sorted(sample.ids[sample.ages > 2].tolist()) and len(computed) == 4
    assert (sample.old_logps.values[sample.old_logps.computed] == -0.25).all()
    assert (sample.old_logps.values[~sample.old_logps.computed][:, 0] == -0.5).all()
    buffer.sample(100, compute=compute)
    assert len(computed) == 4, "they are fresh now"


def test_groups_are_drawn_whole_and_as_old_as_their_oldest(opened: Opened) -> None:
    buffer = opened(stale="drop", by="group", group_size=2)
    filled(buffer, range(1, 3))
    buffer.put(completion_ids=tokens(4), group_ids=[77])  # one of two: it is not complete
    sample = buffer.sample(2)
    assert sorted(sample.group_ids.tolist()) == [1, 1, 2, 2] and sample.group_ids[0] == sample.group_ids[1]
    buffer.advance(3)
    buffer.put(completion_ids=tokens(4), group_ids=[77])
    assert sorted(buffer.sample(3).group_ids.tolist()) == [1, 1, 2, 2, 77, 77]
    assert buffer.advance(4) == 2
    assert buffer.advance(5) == 4, "of the group that came in two parts the older counts: it is stale as a whole"


def test_strategies_choose_the_oldest_the_newest_or_any(opened: Opened) -> None:
    buffer = opened(stale="keep", seed=3)
    filled(buffer, range(1, 9))
    assert ages(buffer, 2, strategy="oldest") == [7, 7] and ages(buffer, 2, strategy="newest") == [0, 0]
    draws = [buffer.sample(4).ids.tolist() for _ in range(3)]
    assert len({tuple(draw) for draw in draws}) == 3 and all(len(set(draw)) == 4 for draw in draws)


def test_what_is_held_is_not_drawn_again_until_it_is_released(opened: Opened) -> None:
    buffer = opened(stale="keep")
    filled(buffer, range(1, 4))
    first, second = buffer.sample(4, hold=True), buffer.sample(4, hold=True)
    assert len(first) == 4 and len(second) == 2 and not set(first.ids.tolist()) & set(second.ids.tolist())
    buffer.release(first.ids[:1])
    assert buffer.sample(4).ids.tolist() == first.ids[:1].tolist()
    assert buffer.trained(first.ids[:1]) == 1 and len(buffer.sample(4)) == 0


def test_an_end_has_a_reason(opened: Opened) -> None:
    buffer = opened(stale="keep", capacity=6)
    filled(buffer, range(1, 5))
    assert len(buffer) == 6 and buffer.dropped == {"capacity": 2}, "the oldest made room"
    ids = buffer.sample(6, strategy="oldest").ids
    assert buffer.trained(ids[:2]) == 2
    assert buffer.drop(ids[1:4], "too long") == 2, "one was trained on before"
    stats = buffer.store.stats()
    assert (stats["retired_trained"], stats["retired_other"], stats["retired_evicted"]) == (2, 2, 2)
    assert buffer.dropped == {"capacity": 2, "too long": 2}


def test_a_closed_buffer_draws_nothing_and_says_so(opened: Opened) -> None:
    buffer = opened()
    filled(buffer, range(1))
    buffer.close()
    with pytest.raises(InvalidError, match="closed"):
        buffer.sample(1)


def test_a_call_that_is_refused_changes_nothing(opened: Opened) -> None:
    buffer = opened(stale="keep", capacity=2)
    filled(buffer, range(1, 2))
    with pytest.raises(InvalidError):
        buffer.put(completion_ids=tokens(2, 2), sampler_logps=[[-0.5], [-0.5]], cursor=b"not this")
    with pytest.raises(InvalidError, match="completion_ids"):
        buffer.put(prompt_ids=tokens(2))
    with pytest.raises(InvalidError, match="recompute"):
        buffer.sample(1, compute=lambda plan: None)
    assert len(buffer) == 2 and buffer.cursor is None and buffer.dropped == {}


@pytest.mark.parametrize("options", [{"stale": "maybe"}, {"by": "token"}])
def test_options_that_do_not_fit_are_named(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match=next(iter(options.values()))):
        ReplayBuffer.open(tmp_path / "buffer", max_staleness=1, **options)
    with ReplayBuffer.open(tmp_path / "buffer", max_staleness=1) as buffer:
        assert len(buffer) == 0, "the store was closed again"
