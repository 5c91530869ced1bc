"""Goal: bad input is refused before anything is written, by the right exception, which names the row.

Method: each fault alone, in a batch of three whose third row has it; nothing is stored, and the store goes on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import rollstore
from conftest import logps, tokens
from rollstore import RolloutStore

NAN = [*logps(2, 2), np.array([-0.5, np.nan], np.float32)]

FAULTS: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "NaN": ({"old_logps": NAN, "old_version": 0}, ValueError),
    "infinity": ({"old_logps": [*logps(2, 2), np.array([-0.5, -np.inf], np.float32)], "old_version": 0}, ValueError),
    "a positive log-prob": ({"old_logps": [[-0.5], [-0.5], [0.5]], "old_version": 0}, ValueError),
    "float64": ({"old_logps": [*logps(2, 2), np.zeros(2)], "old_version": 0}, TypeError),
    "text": ({"old_logps": [*logps(2, 2), ["a", "b"]], "old_version": 0}, TypeError),
    "floats as tokens": ({"completion_ids": [*tokens(2, 2), np.zeros(2, np.float32)]}, TypeError),
    "a negative token": ({"completion_ids": [[1], [2], [-100]]}, ValueError),
    "a token above u32": ({"completion_ids": [[1], [2], [1 << 32]]}, ValueError),
    "lengths that differ": ({"completion_ids": tokens(2, 2, 2), "sampler_logps": logps(2, 2, 3)}, ValueError),
    "two dimensions": ({"completion_ids": [*tokens(2, 2), np.zeros((1, 2), np.uint32)]}, ValueError),
    "a version never issued": ({"old_logps": logps(2, 2, 2), "old_version": [0, 0, 5]}, ValueError),
    "types that differ": ({"columns": {"x": [np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int64)]}}, TypeError),
    "a type of no column": ({"columns": {"x": [np.zeros(1, np.int32), None, np.zeros(1, np.uint64)]}}, TypeError),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_row_is_named_and_nothing_is_stored(store: RolloutStore, fault: str) -> None:
    columns, kind = FAULTS[fault]
    with pytest.raises(kind) as refused:
        store.insert([1, 2, 3], 100, **columns)
    assert isinstance(refused.value, rollstore.InvalidError)
    assert refused.value.row == 2 and str(refused.value).startswith("row 2: ")
    assert len(store) == 0
    store.insert([1, 2, 3], 100, completion_ids=tokens(1, 2, 3))
    assert len(store) == 3


@pytest.mark.parametrize(
    "ids", [[1, 2, -1], [1, 2, 1 << 64], np.array([1, 2, -1]), np.array([1, 2, -1], np.int32), [1, 2, 1], ["a", "b", "a"]], ids=str
)
def test_a_bad_id_is_named(store: RolloutStore, ids: Any) -> None:
    with pytest.raises(ValueError) as refused:
        store.insert(ids, 100)
    assert isinstance(refused.value, rollstore.InvalidError)
    assert refused.value.row == 2, "of an id that is given twice, the second"
    assert len(store) == 0


@pytest.mark.parametrize("id", [-1, 1 << 64])
def test_a_bad_id_is_named_wherever_ids_are_asked_for(store: RolloutStore, id: int) -> None:
    store.insert([1], 100, completion_ids=tokens(1))
    asking: list[Any] = [
        lambda ids: store.gather(ids, "completion_ids"),
        lambda ids: store.gather_flat(ids, "completion_ids"),
        lambda ids: store.staleness(ids, 100),
        lambda ids: store.plan_for(ids, 100),
        lambda ids: store.get_or_compute(ids, 100, lambda plan: [None] * len(plan)),
        store.retire,
        store.read_partials,
    ]
    for ask in asking:
        with pytest.raises(rollstore.InvalidError) as refused:
            ask([1, id])
        assert refused.value.row == 1
    assert len(store) == 1


def test_an_id_that_is_not_live_is_named(store: RolloutStore) -> None:
    store.insert([1], 100, completion_ids=tokens(1))
    asking: list[Any] = [
        lambda ids: store.gather(ids, "completion_ids"),
        lambda ids: store.gather_flat(ids, "completion_ids"),
        lambda ids: store.staleness(ids, 100),
        lambda ids: store.plan_for(ids, 100),
        lambda ids: store.get_or_compute(ids, 100, lambda plan: [None] * len(plan)),
    ]
    for ask in asking:
        with pytest.raises(rollstore.NotFoundError) as refused:
            ask([1, 5])
        assert (refused.value.row, refused.value.id) == (1, 5)


def test_ids_of_another_type_are_refused(store: RolloutStore) -> None:
    for ids in (np.array([1.0]), [1.5], [None]):
        with pytest.raises(TypeError):
            store.insert(ids, 100)
    for ids in (5, "5"):
        with pytest.raises(rollstore.InvalidError):
            store.insert(ids, 100)


def test_a_live_id_is_refused_with_its_row(store: RolloutStore) -> None:
    store.insert([7], 100)
    with pytest.raises(rollstore.InvalidError, match="live") as refused:
        store.insert([6, 7], 100)
    assert (refused.value.row, refused.value.id, len(store)) == (1, 7, 1)


@pytest.mark.parametrize("step", [-1, 1 << 64, 1.5, None, "100"])
def test_a_step_that_is_none_is_refused(store: RolloutStore, step: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        store.needs_recompute(step)
    with pytest.raises((ValueError, TypeError)):
        store.insert([1], step)
    assert len(store) == 0


def test_shapes_that_do_not_fit_are_refused(store: RolloutStore) -> None:
    wrong: list[dict[str, Any]] = [
        {"completion_ids": tokens(1)},
        {"completion_ids": np.zeros((2, 4), np.uint32)},
        {"completion_ids": np.zeros((2, 4), np.uint32), "lengths": [1, 5]},
        {"completion_ids": np.zeros((2, 4), np.uint32), "lengths": [1, -1]},
        {"completion_ids": np.zeros((2, 4), np.uint32), "lengths": [[1, 0, 1, 0], [1, 1, 0, 0]]},
        {"completion_ids": (np.zeros(4, np.uint32), np.array([0, 5, 4]))},
        {"completion_ids": np.zeros(4, np.uint32)},
        {"rewards": [1.0]},
        {"old_logps": logps(2, 2)},
    ]
    for columns in wrong:
        with pytest.raises(rollstore.InvalidError):
            store.insert([1, 2], 100, **columns)
    assert len(store) == 0


def test_a_column_under_two_names_is_refused(store: RolloutStore) -> None:
    with pytest.raises(rollstore.InvalidError, match="twice"):
        store.insert([1], 100, sampler_logps=[[-0.5]], columns={"logprobs": [[-0.5]]})


def test_words_that_are_none_are_refused(store: RolloutStore) -> None:
    store.insert([1], 100, completion_ids=tokens(1))
    any_store: Any = store
    with pytest.raises(rollstore.InvalidError, match="trained"):
        any_store.retire([1], "because")
    with pytest.raises(rollstore.InvalidError, match="left"):
        any_store.gather([1], "completion_ids", side="middle")
    with pytest.raises(rollstore.InvalidError, match="keep"):
        any_store.rewind(100, created_later="maybe")
    assert len(store) == 1
