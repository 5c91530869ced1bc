"""Goal: a gather puts each value in its place, pads the rest, and never serves what is not there or not fresh.

Method: every buffer is compared with one that NumPy fills from views, and every refusal leaves the buffer as it was.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import rollstore
from conftest import logps, tokens
from rollstore import RolloutStore

IDS = [5, 3, 4, 3]


@pytest.fixture
def filled(store: RolloutStore) -> RolloutStore:
    store.insert(
        [3, 4, 5],
        100,
        prompt_ids=tokens(2, 4, 1),
        completion_ids=tokens(3, 0, 6),
        old_logps=logps(3, 0, 6),
        old_version=0,
        columns={"half": [np.ones(n, np.float16) / 3 for n in (3, 0, 6)]},
    )
    return store


def by_hand(store: RolloutStore, column: str, width: int, pad: float, left: bool, dtype: Any) -> Any:
    out = np.full((len(IDS), width), pad, dtype)
    for row, id in enumerate(IDS):
        values = store[id][column]
        place = slice(width - len(values), None) if left else slice(None, len(values))
        out[row, place] = values
    return out


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize(
    ("column", "dtype"),
    [
        ("old_logps", "float32"),
        ("completion_ids", "uint32"),
        ("completion_ids", "int64"),
        ("prompt_ids", "int64"),
        ("half", "float16"),
        ("half", "float32"),
    ],
)
def test_a_buffer_is_filled_as_by_hand(filled: RolloutStore, column: str, dtype: str, left: bool) -> None:
    out = np.full((4, 9), 77, dtype)
    padded = filled.gather(IDS, column, out, step=100, pad=5, side="left" if left else "right")
    np.testing.assert_array_equal(out, by_hand(filled, column, 9, 5, left, dtype))
    assert padded.values is out
    assert padded.lens.tolist() == [len(filled[id][column]) for id in IDS]


def test_without_a_buffer_one_as_wide_as_the_longest_row_is_made(filled: RolloutStore) -> None:
    for column in ("old_logps", "completion_ids", "half"):
        made = filled.gather(IDS, column, step=100, side="left")
        own = filled[5][column].dtype
        np.testing.assert_array_equal(made.values, by_hand(filled, column, 6, 0, True, own))
        assert made.values.dtype == own
    assert filled.gather([], "old_logps", step=100).values.shape == (0, 0)


def test_flat_rows_lie_behind_each_other(filled: RolloutStore) -> None:
    flat = filled.gather_flat(IDS, "completion_ids")
    assert flat.cu_seqlens.tolist() == [0, 6, 9, 9, 12] and flat.cu_seqlens.dtype == np.int32
    np.testing.assert_array_equal(flat.values, np.concatenate([filled[id].completion_ids for id in IDS]))


def test_stale_log_probs_are_refused_and_the_buffer_is_unchanged(filled: RolloutStore) -> None:
    filled.advance_ref_version(101)
    out = np.full((2, 6), 77, np.float32)
    with pytest.raises(rollstore.InvalidError, match="not fresh") as refused:
        filled.gather([4, 5], "old_logps", out, step=101)
    assert (refused.value.row, refused.value.id) == (0, 4) and (out == 77).all()
    assert filled.gather([5], "old_logps", stale="allow").lens.tolist() == [6]


def test_old_logps_without_a_step_are_refused(filled: RolloutStore) -> None:
    with pytest.raises(rollstore.InvalidError, match="step"):
        filled.gather(IDS, "old_logps")


def test_what_is_not_there_is_not_found(filled: RolloutStore) -> None:
    with pytest.raises(KeyError) as refused:
        filled.gather([3, 99], "old_logps", step=100)
    assert isinstance(refused.value, rollstore.NotFoundError) and (refused.value.row, refused.value.id) == (1, 99)
    with pytest.raises(rollstore.NotFoundError) as refused:
        filled.gather(IDS, "sampler_logps")
    assert refused.value.row == 0
    filled.insert([9], 100, completion_ids=[[1]])
    with pytest.raises(rollstore.NotFoundError) as refused:
        filled.gather([3, 9], "old_logps", step=100, stale="allow")
    assert refused.value.row == 1


@pytest.mark.parametrize(
    "out",
    [
        np.zeros((4, 5), np.float32),
        np.zeros((3, 9), np.float32),
        np.zeros((4, 9), np.float16),
        np.zeros((4, 9), np.float64),
        np.zeros((9, 4), np.float32).T,
        np.zeros(36, np.float32),
        np.zeros((4, 9), np.int64),
        [[0.0] * 9] * 4,
    ],
    ids=["too narrow", "too few rows", "narrower type", "wider unknown type", "transposed", "flat", "whole", "a list"],
)
def test_a_buffer_that_does_not_fit_is_refused_and_unchanged(filled: RolloutStore, out: Any) -> None:
    with pytest.raises((rollstore.InvalidError, rollstore.DTypeError)):
        filled.gather(IDS, "old_logps", out, step=100)
    assert not np.any(out)


def test_a_read_only_buffer_is_refused(filled: RolloutStore) -> None:
    out = np.zeros((4, 9), np.float32)
    out.flags.writeable = False
    with pytest.raises(rollstore.InvalidError, match="writeable"):
        filled.gather(IDS, "old_logps", out, step=100)


def test_a_pad_that_the_type_does_not_hold_is_refused(filled: RolloutStore) -> None:
    with pytest.raises(rollstore.InvalidError, match="pad"):
        filled.gather(IDS, "completion_ids", pad=-1)
    assert filled.gather(IDS, "completion_ids", np.zeros((4, 6), np.int64), pad=-100).values.min() == -100


def test_processed_log_probs_are_not_taken_for_raw_ones(store: RolloutStore) -> None:
    made = {"sampler_logps": rollstore.Provenance("vllm", "processed", temperature=0.7)}
    store.insert([1], 100, sampler_logps=logps(3), provenance=made)
    with pytest.raises(rollstore.InvalidError, match="0.7"):
        store.gather([1], "sampler_logps", kind="raw")
    assert store.gather([1], "sampler_logps", kind="processed").lens.tolist() == [3]
    assert store[1].provenance("sampler_logps") == ("vllm", True, pytest.approx(0.7), 1.0, 0)
