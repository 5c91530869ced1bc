"""Goal: all forms of a column say the same. Method: one batch is inserted in each form, and every value comes back alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rollstore import RolloutStore

LENS = np.array([3, 0, 5, 1])
ROWS = [np.arange(10 * row, 10 * row + n, dtype=np.uint32) for row, n in enumerate(LENS)]
LOGPS = [-np.arange(n, dtype=np.float32) for n in LENS]


def padded(rows: list[Any], pad: Any, left: bool = False) -> Any:
    out = np.full((len(rows), 6), pad, np.asarray(rows[0]).dtype if pad != -100 else np.int64)
    for row, values in enumerate(rows):
        if len(values):
            out[row, slice(-len(values), None) if left else slice(None, len(values))] = values
    return out


MASK_LEFT = np.arange(6)[None, :] >= 6 - LENS[:, None]
FORMS: dict[str, dict[str, Any]] = {
    "arrays": {"completion_ids": ROWS, "old_logps": LOGPS},
    "plain lists": {"completion_ids": [row.tolist() for row in ROWS], "old_logps": [row.tolist() for row in LOGPS]},
    "int64 and -100": {
        "completion_ids": padded(ROWS, -100),
        "old_logps": padded(LOGPS, np.nan),
        "lengths": LENS,
    },
    "padded on the left": {
        "completion_ids": padded(ROWS, 0, left=True),
        "old_logps": padded(LOGPS, 0.0, left=True),
        "lengths": MASK_LEFT,
    },
    "lengths from the completions": {"completion_ids": ROWS, "old_logps": padded(LOGPS, 0.0)},
    "flat": {
        "completion_ids": (np.concatenate(ROWS), np.cumsum([0, *LENS])),
        "old_logps": (np.concatenate(LOGPS), np.cumsum([0, *LENS]).astype(np.int32)),
    },
    "not contiguous": {
        "completion_ids": [np.repeat(row, 2)[::2] for row in ROWS],
        "old_logps": [np.repeat(row, 2)[::2] for row in LOGPS],
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_says_the_same(store: RolloutStore, form: str) -> None:
    store.insert([7, 8, 9, 10], 100, old_version=0, **FORMS[form])
    for row, id in enumerate([7, 8, 9, 10]):
        np.testing.assert_array_equal(store[id].completion_ids, ROWS[row])
        np.testing.assert_array_equal(store[id].old_logps, LOGPS[row])
        assert store[id].old_logps.dtype == np.float32


def test_what_is_absent_is_absent(store: RolloutStore) -> None:
    store.insert([1, 2], 100, completion_ids=[[1, 2], None], columns={"x": [None, np.array([1.5], np.float16)]})
    assert "completion_ids" in store[1] and "completion_ids" not in store[2]
    assert "x" not in store[1] and store[2]["x"].tolist() == [1.5]
    assert "old_logps" not in store[1]


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int64", "uint32", "uint8"])
def test_columns_of_every_type_come_back_bit_for_bit(store: RolloutStore, dtype: str) -> None:
    bits = np.random.default_rng(3).integers(0, 256, 64, np.uint8).view(dtype)
    store.insert([1], 100, columns={"own": [bits]})
    assert store[1]["own"].dtype == dtype
    np.testing.assert_array_equal(np.asarray(store[1]["own"]).view(np.uint8), bits.view(np.uint8))
    np.testing.assert_array_equal(store.gather_flat([1], "own").values.view(np.uint8), bits.view(np.uint8))


def test_bfloat16_is_that_of_ml_dtypes(store: RolloutStore) -> None:
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    values = np.array([-0.5, 3.140625, 1e30], bfloat16)
    store.insert([1], 100, columns={"own": [values]})
    assert store[1]["own"].dtype == bfloat16
    np.testing.assert_array_equal(store[1]["own"], values)
    wide = store.gather([1], "own", np.zeros((1, 3), np.float32)).values
    np.testing.assert_array_equal(wide, values.astype(np.float32)[None])


def test_numbers_of_rows_are_one_or_each_its_own(store: RolloutStore) -> None:
    store.insert([1, 2], [100, 101], group_ids=5, rewards=[0.5, 1], advantages=np.array([-1.0, 1.0]), metadata=[b"a", b""])
    first, second = store[1], store[2]
    assert (first.created_step, second.created_step, first.group_id, second.group_id) == (100, 101, 5, 5)
    assert (first.reward, second.reward, first.advantage, second.advantage) == (0.5, 1.0, -1.0, 1.0)
    assert (first.metadata, second.metadata, store.group(5).tolist()) == (b"a", b"", [1, 2])


def test_string_keys_stand_for_ids(store: RolloutStore) -> None:
    store.insert(["req-a", "req-b"], 100, completion_ids=[[1], [2]])
    assert store["req-b"].key == "req-b" and store["req-b"].id >> 63 == 1
    assert store.gather(["req-b", "req-a"], "completion_ids").values.tolist() == [[2], [1]]


@pytest.mark.parametrize("name", ["old_per_token_logps", "old_log_probs", "proximal_logp"])
def test_trainers_names_mean_our_columns(store: RolloutStore, name: str) -> None:
    store.insert([1], 100, old_version=0, columns={name: [np.array([-0.5], np.float32)]})
    assert store[1].old_logps.tolist() == store[1][name].tolist() == [-0.5]
    assert store.gather([1], name, step=100).values.tolist() == [[-0.5]]


def test_what_the_caller_changes_afterwards_is_not_stored(store: RolloutStore) -> None:
    values = np.full(4, -0.5, np.float32)
    batch = store.batch()
    batch.insert([1], 100, old_logps=(values, np.array([0, 4])), old_version=0)
    values[:] = -9
    batch.commit()
    assert store[1].old_logps.tolist() == [-0.5] * 4
    assert store.verify().is_sound
