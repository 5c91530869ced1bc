"""Goal: only what is not fresh is computed, results of any form find their rows, and a function that fails stores nothing.

Method: a forward that counts what it was asked, under every way of asking; the store's flags tell the truth afterwards.
"""

from __future__ import annotations

import threading
import traceback
from typing import Any

import numpy as np
import pytest
import rollstore
from conftest import logps, tokens
from rollstore import Applied, Budget, Plan, RolloutStore

IDS = [11, 12, 13]
LENS = [3, 1, 4]


@pytest.fixture
def filled(store: RolloutStore) -> RolloutStore:
    store.insert(IDS, 100, completion_ids=tokens(*LENS))
    return store


def forward(plan: Plan) -> list[Any]:
    return [np.full(n, -float(plan.ref_version) - 1, np.float32) for n in plan.lens]


def test_a_plan_names_the_rows_to_compute(filled: RolloutStore) -> None:
    filled.apply(filled.plan_for([12], 100), [[-0.5]])
    plan = filled.plan_for([13, 12, 11, 13], 100)
    assert (plan.ids.tolist(), plan.positions.tolist(), plan.lens.tolist()) == ([13, 11], [0, 2], [4, 3])
    assert (len(plan), plan.step, plan.ref_version, plan.token_count) == (2, 100, 0, 7)
    assert [rollout.completion_ids.tolist() for rollout in plan.rollouts] == [[200, 201, 202, 203], [0, 1, 2]]


ROWS = [np.array([-1.0, -2, -3], np.float32), np.array([-4.0], np.float32), np.array([-5.0, -6, -7, -8], np.float32)]
PADDED = np.array([[-1, -2, -3, 9], [-4, 9, 9, 9], [-5, -6, -7, -8]], np.float32)
LEFT = np.array([[9, -1, -2, -3], [9, 9, 9, -4], [-5, -6, -7, -8]], np.float32)
RESULTS: dict[str, Any] = {
    "list": ROWS,
    "plain lists": [row.tolist() for row in ROWS],
    "padded": PADDED,
    "padded and lengths": (PADDED, [3, 1, 4]),
    "padded and mask": (LEFT, LEFT < 0),
    "flat": (np.concatenate(ROWS), np.array([0, 3, 4, 8])),
    "by id": {13: ROWS[2], 11: ROWS[0], 12: ROWS[1]},
}


@pytest.mark.parametrize("form", RESULTS)
def test_results_of_every_form_say_the_same(filled: RolloutStore, form: str) -> None:
    assert filled.apply(filled.plan_for(IDS, 100), RESULTS[form]) == Applied(3, 0, 0)
    for id, row in zip(IDS, ROWS, strict=True):
        assert filled[id].old_logps.tolist() == row.tolist()
    assert filled.staleness(IDS, 100).fresh.all()


WRONG: dict[str, tuple[Any, int | None]] = {
    "NaN": ([ROWS[0], [np.nan], ROWS[2]], 1),
    "a wrong length": ([ROWS[0], ROWS[1], ROWS[1]], 2),
    "another type": ([ROWS[0], ROWS[1], np.zeros(4)], 2),
    "too few": (ROWS[:2], None),
    "too narrow": (PADDED[:, :2], 0),
    "a stranger's id": ({99: ROWS[0]}, None),
    "text": ([ROWS[0], "-1", ROWS[2]], 1),
    "a number": (7, None),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_results_store_nothing_and_the_plan_stays_good(filled: RolloutStore, wrong: str) -> None:
    plan = filled.plan_for(IDS, 100)
    values, row = WRONG[wrong]
    with pytest.raises((rollstore.InvalidError, TypeError)) as refused:
        filled.apply(plan, values)
    if row is not None:
        assert isinstance(refused.value, rollstore.Error) and refused.value.row == row
    assert filled.missing().tolist() == IDS
    assert filled.apply(plan, ROWS) == Applied(3, 0, 0)


def test_late_results_are_dropped(filled: RolloutStore) -> None:
    plan = filled.plan_for(IDS, 100)
    filled.retire([12])
    filled.apply(filled.plan_for([13], 100), [ROWS[2]])
    assert filled.apply(plan, ROWS) == Applied(computed=1, dropped=2, declined=0)
    assert filled.apply(plan, ROWS) == Applied(computed=0, dropped=3, declined=0)


def test_results_keep_the_version_of_their_plan(filled: RolloutStore) -> None:
    plan = filled.plan_for([11], 100)
    filled.advance_ref_version(101)
    filled.apply(plan, [ROWS[0]])
    assert filled[11].ref_version == 0 and sorted(filled.stale()) == IDS


def test_get_or_compute_computes_what_is_not_fresh_once(filled: RolloutStore) -> None:
    asked: list[list[int]] = []

    def count(plan: Plan) -> list[Any]:
        asked.append(plan.ids.tolist())
        return forward(plan)

    filled.get_or_compute([12], 100, count)
    served = filled.get_or_compute(IDS, 100, count)
    assert asked == [[12], [11, 13]] and served.computed.tolist() == [True, False, True]
    assert served.lens.tolist() == LENS and served.values[2].tolist() == [-1] * 4
    assert not filled.get_or_compute(IDS, 100, count).computed.any() and len(asked) == 2
    with filled.weight_update(101):
        pass
    assert filled.get_or_compute([13], 101, count, pad=5, side="left").values.tolist() == [[-2] * 4]


def test_a_closure_that_raises_keeps_its_exception_and_traceback(filled: RolloutStore) -> None:
    class OwnError(Exception):
        pass

    def fails(plan: Plan) -> list[Any]:
        raise OwnError(len(plan))

    calls: list[Any] = [
        lambda: filled.get_or_compute(IDS, 100, fails),
        lambda: filled.sweep("s", 100, None, fails, query="all"),
    ]
    for call in calls:
        with pytest.raises(OwnError) as raised:
            call()
        assert "fails" in [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
        assert raised.value.args == (3,)
    assert filled.missing().tolist() == IDS


def test_a_closure_may_use_the_store(filled: RolloutStore) -> None:
    def nested(plan: Plan) -> list[Any]:
        filled.insert([50], 100, completion_ids=[[1]])
        filled.get_or_compute([50], 100, forward)
        return forward(plan)

    assert filled.get_or_compute(IDS, 100, nested).computed.all()
    assert 50 in filled and filled.staleness([50], 100).fresh.all()


def test_a_closure_that_gives_the_wrong_lengths_stores_nothing(filled: RolloutStore) -> None:
    with pytest.raises(rollstore.InvalidError) as refused:
        filled.get_or_compute(IDS, 100, lambda plan: logps(*[n + 1 for n in plan.lens]))
    assert refused.value.row == 0 or refused.value.id == 11
    assert filled.missing().tolist() == IDS


def test_a_declined_rollout_is_named(filled: RolloutStore) -> None:
    with pytest.raises(rollstore.InvalidError, match="no result") as refused:
        filled.get_or_compute(IDS, 100, lambda plan: [ROWS[0], None, ROWS[2]])
    assert (refused.value.row, refused.value.id) == (1, 12)
    assert filled.missing().tolist() == [12], "what was given is stored"


def test_recompute_keeps_to_its_budget_and_goes_on(store: RolloutStore) -> None:
    store.insert(range(10), 0, completion_ids=tokens(*[4] * 10), old_logps=logps(*[4] * 10), old_version=0)
    store.advance_ref_version(20)
    assert store.recompute(20, 4, forward, micro_batch=3) == (4, 0, 0, 2)
    assert sorted(store.needs_recompute(20)) == list(range(4, 10))
    assert store.recompute(20, Budget(tokens=9), forward).computed == 2
    assert store.recompute(20, Budget(seconds=60), forward).computed == 4
    assert store.recompute(20, 4, forward) == (0, 0, 0, 0)
    with pytest.raises(rollstore.InvalidError):
        store.recompute(20, Budget(rollouts=-1), forward)


@pytest.mark.parametrize(
    ("budget", "fitting"),
    [
        (Budget(rollouts=3, tokens=100), 3),
        (Budget(rollouts=9, tokens=10), 2),
        (Budget(rollouts=9, tokens=100, seconds=0), 0),
        (Budget(rollouts=3, tokens=9, seconds=60), 2),
        (Budget(), 10),
    ],
)
def test_of_several_limits_the_one_reached_first_counts(store: RolloutStore, budget: Budget, fitting: int) -> None:
    store.insert(range(10), 0, completion_ids=tokens(*[4] * 10), old_logps=logps(*[4] * 10), old_version=0)
    store.advance_ref_version(20)
    assert len(store.plan_due(20, budget)) == fitting
    assert store.sweep("all", 20, budget, forward, micro_batch=1).computed == fitting
    store.advance_ref_version(20)
    assert store.recompute(20, budget, forward, micro_batch=1).computed == fitting


def test_ranks_that_agree_call_equally_often(store: RolloutStore) -> None:
    store.insert(range(10), 0, completion_ids=tokens(*[4] * 10))
    sizes: list[int] = []

    def count(plan: Plan) -> list[Any]:
        sizes.append(len(plan))
        return forward(plan)

    def other_rank_has(most: int) -> Any:
        return lambda number: max(number, most)

    store.get_or_compute(range(5), 0, count, micro_batch=2, agree=other_rank_has(4))
    assert sizes == [2, 2, 1, 0]
    sizes.clear()
    store.get_or_compute(range(5), 0, count, micro_batch=2, agree=other_rank_has(3))
    assert sizes == [0, 0, 0], "nothing to compute here, and the others need this one all the same"
    sizes.clear()
    store.recompute(20, 3, count, micro_batch=2, agree=other_rank_has(3))
    assert sizes == [2, 1, 0]


def test_plans_wait_for_a_weight_update_of_another_thread(filled: RolloutStore) -> None:
    versions: list[int] = []
    inside = threading.Event()

    def plan() -> None:
        inside.set()
        versions.append(filled.plan_for(IDS, 101).ref_version)

    worker = threading.Thread(target=plan)
    with filled.weight_update(101) as update:
        worker.start()
        inside.wait()
        with pytest.raises(rollstore.InvalidError, match="weight update"):
            filled.plan_for(IDS, 101)
        assert versions == []
    worker.join()
    assert versions == [1] and update.ref_version == 1


def test_a_weight_update_that_fails_advances_all_the_same(filled: RolloutStore) -> None:
    with pytest.raises(ZeroDivisionError), filled.weight_update(101):
        _ = 1 // 0
    assert filled.ref_version == 1
    with pytest.raises(rollstore.InvalidError, match="rewind"), filled.weight_update(50):
        pytest.fail("the weights must not change")
    assert filled.ref_version == 1


def test_a_sweep_sets_aside_what_fails_and_finishes(filled: RolloutStore) -> None:
    def poisoned(plan: Plan) -> list[Any]:
        return [
            ValueError("too long") if rollout.id == 12 else row
            for rollout, row in zip(plan.rollouts, forward(plan), strict=True)
        ]

    swept = filled.sweep("once", 100, None, poisoned, query="all", retries=1)
    assert (swept.computed, swept.finished) == (2, True)
    assert [(one.id, one.attempts, one.given_up, one.reason) for one in swept.set_aside] == [(12, 2, True, "too long")]
    assert filled.forget_sweep("once") and not filled.forget_sweep("once")


def test_kl_ref_log_probs_have_a_clock_of_their_own(filled: RolloutStore) -> None:
    filled.apply(filled.plan_kl_ref_for(IDS, 100), ROWS)
    assert filled.gather(IDS, "ref_log_prob").lens.tolist() == LENS
    assert filled.advance_kl_ref_version() == 1
    with pytest.raises(rollstore.InvalidError, match="version"):
        filled.gather(IDS, "kl_ref_logps")
    assert len(filled.plan_kl_ref_for(IDS, 100)) == 3
