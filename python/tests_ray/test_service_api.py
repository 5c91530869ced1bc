"""A service is a store: it has every call of one, with the same arguments, and gives the same results.

The signatures are compared, and then one random program runs against an embedded store and a service of three shards, call by call.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rollstore import Budget, Error, RolloutStore
from rollstore.ray import RolloutService
from service_cluster import cluster, services  # noqa: F401

UNORDERED = ("out_of_window", "stale", "needs_recompute", "from_future")
CALLS = 150


def test_every_call_has_the_arguments_that_a_store_has() -> None:
    public = [name for name in dir(RolloutStore) if not name.startswith("_")]
    assert {"insert", "gather", "apply", "sweep", "checkpoint", "to_arrow"} <= set(public)
    for name in public:
        if name in ("open", "restore"):
            continue  # constructors: what is theirs comes on top
        ours, theirs = getattr(RolloutService, name), getattr(RolloutStore, name)
        if callable(theirs):
            assert inspect.signature(ours) == inspect.signature(theirs), name
    restore = list(inspect.signature(RolloutService.restore).parameters)
    assert restore[:2] == list(inspect.signature(RolloutStore.restore).parameters)[:2]


def test_a_random_program_has_the_same_results(tmp_path: Path, services: Callable[..., RolloutService]) -> None:  # noqa: F811
    with RolloutStore.open(tmp_path / "embedded", window=8, max_version_lag=1) as embedded:
        service = services(tmp_path / "service", shards=3, max_version_lag=1)
        one, other = Program(embedded), Program(service)
        for seed in range(CALLS):
            told, answered = one.call(seed), other.call(seed)
            assert told == answered, f"call {seed}"
        assert one.kinds >= {"insert", "gather", "apply", "recompute", "refused", "sweep", "partials"}
        assert len(one.store) > 20


class Program:
    """A trainer that does what a seed says, and writes down in plain values what came of it."""

    def __init__(self, store: RolloutStore) -> None:
        self.store = store
        self.step, self.next_id = 100, 1000
        self.kinds: set[str] = set()

    def call(self, seed: int) -> Any:
        rng = random.Random(seed)
        kind = rng.choice([name.removeprefix("do_") for name in dir(self) if name.startswith("do_")])
        self.kinds.add(kind)
        try:
            return kind, plain(getattr(self, f"do_{kind}")(rng))
        except Error as error:
            self.kinds.add("refused")
            return kind, type(error).__name__, error.row, error.id

    def live(self, rng: random.Random, count: int = 12) -> list[int]:
        ids = self.store.ids().tolist()
        return rng.sample(ids, min(count, len(ids)))

    def do_insert(self, rng: random.Random) -> Any:
        count = rng.randrange(1, 40)
        ids = list(range(self.next_id, self.next_id + count))
        self.next_id += count
        lens = [rng.randrange(1, 20) for _ in ids]
        tokens = [np.arange(n, dtype=np.uint32) + id for n, id in zip(lens, ids, strict=True)]
        sampler = [np.full(n, -0.5, np.float32) if rng.random() < 0.7 else None for n in lens]
        given: dict[str, Any] = {"completion_ids": tokens, "sampler_logps": sampler}
        if rng.random() < 0.6:
            given |= {"old_logps": [np.full(n, -0.25, np.float32) for n in lens], "old_version": self.store.ref_version}
        if rng.random() < 0.5:
            given |= {"group_ids": [id // 4 for id in ids], "rewards": [rng.random() for _ in ids]}
            given |= {"columns": {"entropy": [np.full(n, 0.5, np.float16) for n in lens]}, "metadata": [b"m%d" % id for id in ids]}
        self.store.insert(ids, self.step, **given)

    def do_insert_again(self, rng: random.Random) -> Any:
        new = list(range(self.next_id + 10**6, self.next_id + 10**6 + 5))
        ids = [*new, *(self.live(rng, 1) or new[:1])]
        try:
            self.store.insert(ids, self.step, completion_ids=[[1]] * len(ids))
        finally:
            assert all(found is None for found in self.store.get_many(ids[:5])), "a refused insert left something"

    def do_insert_nan(self, rng: random.Random) -> Any:
        logps = [np.full(3, -0.5, np.float32) for _ in range(6)]
        logps[rng.randrange(6)][1] = np.nan
        self.store.insert(range(10**7, 10**7 + 6), self.step, old_logps=logps, old_version=self.store.ref_version)

    def do_replace(self, rng: random.Random) -> Any:
        ids = self.live(rng, 4)
        self.store.insert(ids, self.step, replace=True, completion_ids=(np.arange(2 * len(ids)), np.arange(len(ids) + 1) * 2))

    def do_advance(self, rng: random.Random) -> Any:
        self.step += rng.randrange(3)
        return self.store.advance_ref_version(self.step, label=self.step), self.store.ref_version_of(self.step), self.store.clock

    def do_advance_kl(self, rng: random.Random) -> Any:
        return self.store.advance_kl_ref_version()

    def do_weight_update(self, rng: random.Random) -> Any:
        with self.store.weight_update(self.step) as update:
            pass
        return update.ref_version

    def do_gather(self, rng: random.Random) -> Any:
        ids = self.live(rng)
        column = rng.choice(["completion_ids", "completion_ids", "sampler_logps", "old_logps", "entropy"])
        stale: Any = rng.choice(["error", "allow"])
        flat = self.store.gather_flat(ids, column, step=self.step, stale=stale)
        padded = self.store.gather(ids, column, step=self.step, stale=stale, pad=-1 if column == "old_logps" else 0, side="left")
        return flat, padded

    def do_gather_out(self, rng: random.Random) -> Any:
        ids = self.live(rng)
        out = np.zeros((len(ids), rng.choice([19, 24])), rng.choice([np.int64, np.int64, np.float32]))
        return self.store.gather(ids, "completion_ids", out, pad=-100 if out.dtype == np.int64 else 0)

    def do_get(self, rng: random.Random) -> Any:
        found = self.store.get_many([*self.live(rng, 5), 3])
        return [None if one is None else described(one, self.step) for one in found]

    def do_lists(self, rng: random.Random) -> Any:
        step = self.step + rng.randrange(12)
        lists = [sorted(getattr(self.store, name)(*([] if name == "stale" else [step])).tolist()) for name in UNORDERED]
        counts = self.store.count_needs_recompute(step), self.store.count_stale(), self.store.would_recompute(step, 2, 0)
        return lists, counts, self.store.ids(), self.store.missing(), self.store.group(251), len(self.store)

    def do_staleness(self, rng: random.Random) -> Any:
        return self.store.staleness([*self.live(rng), *([5] if rng.random() < 0.2 else [])], self.step)

    def do_apply(self, rng: random.Random) -> Any:
        plan = self.store.plan_for(self.live(rng), self.step)
        told = plan.ids, plan.positions, plan.lens, plan.ref_version, plan.token_count
        values = [None if rng.random() < 0.2 else np.full(n, -0.125, np.float32) for n in plan.lens]
        return told, self.store.apply(plan, values)

    def do_apply_wrong(self, rng: random.Random) -> Any:
        plan = self.store.plan_due(self.step, 4)
        return plan.ids, self.store.apply(plan, [np.zeros(99, np.float32)] * len(plan))

    def do_kl(self, rng: random.Random) -> Any:
        plan = self.store.plan_kl_ref_for(self.live(rng, 6), self.step)
        return plan.ids, self.store.apply(plan, [np.full(n, -0.75, np.float32) for n in plan.lens])

    def do_recompute(self, rng: random.Random) -> Any:
        seen: list[Any] = []

        def forward(plan: Any) -> Any:
            seen.append((plan.ids.tolist(), [rollout.completion_ids.tolist() for rollout in plan.rollouts]))
            return [np.full(n, -0.375, np.float32) for n in plan.lens]

        budget = rng.choice([Budget(rollouts=7), Budget(tokens=60), Budget(tokens=1), Budget(rollouts=0)])
        return self.store.recompute(self.step, budget, forward, micro_batch=3), seen

    def do_get_or_compute(self, rng: random.Random) -> Any:
        forward = lambda plan: {int(id): np.full(n, -0.0625, np.float32) for id, n in zip(plan.ids, plan.lens, strict=True)}  # noqa: E731
        return self.store.get_or_compute(self.live(rng), self.step, forward, micro_batch=5, pad=9.0)

    def do_sweep(self, rng: random.Random) -> Any:
        forward = lambda plan: [np.full(n, -0.5, np.float32) for n in plan.lens]  # noqa: E731
        swept = self.store.sweep("all", self.step, None, forward, query="all", micro_batch=16)
        return swept.computed, swept.dropped, swept.set_aside, swept.finished

    def do_partials(self, rng: random.Random) -> Any:
        ids = list(range(self.next_id, self.next_id + 3))
        self.next_id += 3
        self.store.begin_partial(ids, self.step, prompt_ids=[[1, 2]] * 3)
        self.store.append(ids, [[7], [8, 9], [10]], [[-0.5], [-0.5, -0.25], [-1.0]], version=2)
        told = self.store.partials(), self.store.read_partials(ids), self.store.abandon_partials(ids[2:])
        self.store.finish(ids[:2], self.step, rewards=[1.0, 0.0])
        return told, [self.store[id].completion_ids for id in ids[:2]]

    def do_retire(self, rng: random.Random) -> Any:
        return self.store.retire([*self.live(rng, 3), 1], "trained"), self.store.retire_groups([rng.randrange(250, 400)])

    def do_retire_old(self, rng: random.Random) -> Any:
        version = max(0, self.store.ref_version - 6)
        return self.store.retire_created_before(self.step - 30), self.store.retire_version_before(version)

    def do_batch(self, rng: random.Random) -> Any:
        with self.store.batch() as batch:
            batch.insert([self.next_id], self.step, completion_ids=[[1, 2, 3]])
            batch.retire([self.next_id, 4])
            batch.cursor(b"at %d" % self.next_id)
            batch.advance_ref_version(self.step)
        self.next_id += 1
        assert batch.committed is not None
        return batch.committed.retired, batch.committed.ref_version, self.store.cursor

    def do_stats(self, rng: random.Random) -> Any:
        names = "live tokens missing stale ref_version kl_ref_version clock oldest_born_step computed dropped retired_trained"
        stats = self.store.stats()
        return {name: stats.get(name) for name in names.split()}

    def do_wrong_version(self, rng: random.Random) -> Any:
        self.store.insert([10**8], self.step, old_logps=[[-0.5]], old_version=10**6)

    def do_wrong_step(self, rng: random.Random) -> Any:
        return self.store.advance_ref_version(10**9)


def described(rollout: Any, step: int) -> Any:
    """A rollout in plain values."""
    names = "id created_step born_step ref_version token_count group_id reward advantage key metadata version_spans"
    columns = {name: rollout[name] for name, *_ in rollout.columns()}
    behaviour = rollout.behaviour_logps if "old_logps" in rollout or "sampler_logps" in rollout else None
    return [getattr(rollout, name) for name in names.split()], columns, rollout.columns(), behaviour, rollout.is_fresh(step)


def plain(value: Any) -> Any:
    """A value that == compares whole."""
    if isinstance(value, np.ndarray):
        return value.dtype.name, value.tolist()
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def test_a_program_that_differs_is_seen() -> None:
    """The comparison itself can fail: arrays of another type or value are another."""
    assert plain((np.zeros(2, np.float32),)) != plain((np.zeros(2, np.float64),))
    assert plain(np.zeros(2)) != plain(np.array([0.0, 1.0]))
    with pytest.raises(TypeError):
        RolloutStore.open("x", unknown=1)  # type: ignore[call-arg]
