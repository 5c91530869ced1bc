"""Goal: what an interrupted generation made survives a kill, and its rollout is as if it had been inserted whole.

Method: generations in pieces, in batches of some; a child process is killed between two of them; each fault alone, in a batch
whose other rows are sound.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rollstore
from conftest import tokens
from rollstore import RolloutStore


def test_a_finished_rollout_is_as_if_it_had_come_whole(store: RolloutStore) -> None:
    store.begin_partial([1, 2], 100, prompt_ids=[[5, 6], [7]], group_ids=[9, 9])
    nan = np.array([-0.5, np.nan], np.float32)
    store.append([1, 2], [[10, 11], [20]], [nan, [-1.0]], version=[4, 3])
    store.append([2, 1], [[21, 22], []], [[-2.0, -3.0], []], version=5)
    assert len(store) == 0 and 1 not in store and store.stats()["partials"] == 2
    store.finish([1, 2], 100, completion_ids=[[12], None], sampler_logps=[[-1.5], None], version_spans=[[(6, 1)], []], rewards=[1, 0])
    assert store.partials() == [] and store.ids().tolist() == [1, 2]
    first, second = store[1], store[2]
    assert first.prompt_ids.tolist() == [5, 6] and first.completion_ids.tolist() == [10, 11, 12]
    assert first.sampler_logps.tobytes() == np.array([*nan, -1.5], np.float32).tobytes(), "NaN is kept bit for bit"
    assert first.version_spans == [(4, 2), (6, 1)] and (first.group_id, first.reward) == (9, 1.0)
    assert second.completion_ids.tolist() == [20, 21, 22] and second.version_spans == [(3, 1), (5, 2)]


def test_pieces_come_in_every_form(store: RolloutStore) -> None:
    store.begin_partial([1, 2], [100, 101], prompt_ids=np.array([[0, 5], [6, 7]]), prompt_lengths=np.array([[0, 1], [1, 1]]))
    padded = np.array([[10, 11], [20, -100]])
    store.append([1, 2], padded, np.full((2, 2), -0.5, np.float32), 0, lengths=[2, 1])
    store.append([1, 2], (np.array([12, 21]), np.array([0, 1, 2])), (np.full(2, -1, np.float32), np.array([0, 1, 2])), 1)
    first, second = store.read_partials(np.array([1, 2], np.uint64))
    assert first is not None and second is not None
    assert first.prompt_ids is not None and first.prompt_ids.tolist() == [5] and first.completion_ids.tolist() == [10, 11, 12]
    assert second.completion_ids.tolist() == [20, 21] and second.sampler_logps.tolist() == [-0.5, -1]
    assert (second.created_step, second.version_spans) == (101, [(0, 1), (1, 1)])


def test_all_of_a_step_is_one_commit(store: RolloutStore) -> None:
    store.begin_partial([1, 2, 3], 100)
    store.append([1, 2, 3], tokens(2, 2, 2), [[-0.5] * 2] * 3, version=0)
    with store.batch() as batch:
        batch.finish([1], 100, rewards=[1])
        batch.append([2], [[7]], [[-1]], version=1)
        batch.abandon_partials([3, 77])
        batch.begin_partial(["four"], 101)
        batch.cursor(b"prompt 4")
    assert store.ids().tolist() == [1] and store.cursor == b"prompt 4"
    assert [(open.id, open.tokens) for open in store.partials()] == [(2, 3), (rollstore.id_from_key("four"), 0)]
    assert store.abandon_partials([2, 3]) == 1
    assert store.read_partials([2]) == [None]


CHILD = """
import sys
from rollstore import RolloutStore
store = RolloutStore.open(sys.argv[1], window=8, durability="buffered")
store.begin_partial([1, 2], 100, prompt_ids=[[5], [6]], group_ids=[3, 3])
store.append([1, 2], [[10, 11], [20]], [[-0.5, -0.25], [-1.0]], version=4)
print("appended", flush=True)
sys.stdin.read()
"""


def test_a_killed_generation_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "rollouts"
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None and child.stdout.readline() == "appended\n"
    os.kill(child.pid, 9)
    child.wait()
    with RolloutStore.open(path) as store:
        open_ones = store.partials()
        assert [(one.id, one.created_step, one.tokens, one.version_spans, one.is_whole) for one in open_ones] == [
            (1, 100, 2, [(4, 2)], True),
            (2, 100, 1, [(4, 1)], True),
        ]
        so_far = store.read_partials([one.id for one in open_ones])
        contexts = [[*one.prompt_ids, *one.completion_ids] for one in so_far if one is not None and one.prompt_ids is not None]
        assert contexts == [[5, 10, 11], [6, 20]]
        store.append([1, 2], [[12], [21]], [[-2.0], [-3.0]], version=5)
        store.finish([1, 2], 100)
        assert store[2].sampler_logps.tolist() == [-1.0, -3.0] and store[2].version_spans == [(4, 1), (5, 1)]


FAULTS: dict[str, tuple[Any, type[Exception]]] = {
    "begins twice": (lambda store: store.begin_partial([4, 1], 100), ValueError),
    "begins a live one": (lambda store: store.begin_partial([4, 3], 100), ValueError),
    "begins with a reward": (lambda store: store.begin_partial([4], 100, rewards=[1]), ValueError),
    "appends to none": (lambda store: store.append([1, 9], tokens(1, 1), [[-1], [-1]], 0), KeyError),
    "lengths that differ": (lambda store: store.append([1, 2], tokens(1, 2), [[-1], [-1]], 0), ValueError),
    "a version for each": (lambda store: store.append([1, 2], tokens(1, 1), [[-1], [-1]], [0]), ValueError),
    "a negative version": (lambda store: store.append([1, 2], tokens(1, 1), [[-1], [-1]], [0, -1]), ValueError),
    "a negative token": (lambda store: store.append([1, 2], [[1], [-1]], [[-1], [-1]], 0), ValueError),
    "float64": (lambda store: store.append([1, 2], tokens(1, 1), [np.zeros(1, np.float32), np.zeros(1)], 0), TypeError),
    "finishes none": (lambda store: store.finish([1, 9], 100), KeyError),
    "another step": (lambda store: store.finish([1, 2], [100, 101]), ValueError),
    "a word that is none": (lambda store: store.finish([1], 100, reward=[1]), TypeError),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_changes_nothing_and_names_its_row(store: RolloutStore, fault: str) -> None:
    store.begin_partial([1, 2], 100)
    store.append([1, 2], tokens(2, 2), [[-0.5] * 2] * 2, version=0)
    store.insert([3], 100)
    before = store.partials()
    call, kind = FAULTS[fault]
    with pytest.raises(kind) as refused:
        call(store)
    if isinstance(refused.value, rollstore.Error) and fault != "a version for each":
        assert refused.value.row == (0 if "reward" in fault else 1), refused.value
    assert store.partials() == before and store.ids().tolist() == [3]
