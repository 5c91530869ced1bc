"""Sweeps of a service: each shard's own sweep, in turns of one micro-batch."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import InvalidError
from ._answers import View
from ._plans import Budget, ShardedPlan

if TYPE_CHECKING:
    from ._handle import Handle


def sweep(
    handle: Handle,
    name: str,
    query: tuple[str, int],
    order: str,
    kl_ref: bool,
    complete_groups: int,
    micro_batch: int,
    retries: int,
    step: int,
    budget: Budget,
    function: Callable[[Any], Any],
) -> tuple[int, int, int, int, list[Any], bool]:
    """As the native half's. The shards take turns, so that they come equally far: rollouts of one age lie with all of them."""
    if complete_groups > 0:
        raise InvalidError("complete_groups asks for whole groups in one store; a service spreads their rollouts over its shards")
    left = _Left(budget)
    totals, aside = [0, 0, 0, 0], dict[int, list[Any]]()
    unfinished = list(range(handle.calls.shards))
    while unfinished and not left.is_used_up:
        for shard in list(unfinished):
            if left.is_used_up:
                break
            args = (name, query, order, kl_ref, 0, micro_batch, retries, step, left.for_one(micro_batch))
            computed, *counts, set_aside, is_finished = _turn(handle, shard, step, args, function, left)
            totals = [total + one for total, one in zip(totals, (computed, *counts), strict=True)]
            aside[shard] = set_aside
            if is_finished:
                unfinished.remove(shard)
    computed, dropped, failed, micro_batches = totals
    return computed, dropped, failed, micro_batches, [one for each in aside.values() for one in each], not unfinished


class _Left:
    """What of a budget is left."""

    def __init__(self, budget: Budget) -> None:
        self.rollouts, self.tokens, seconds = budget
        self._ends = None if seconds is None else time.monotonic() + seconds
        self._is_first = True

    @property
    def is_used_up(self) -> bool:
        if 0 in (self.rollouts, self.tokens):
            return True
        return not self._is_first and self._ends is not None and time.monotonic() >= self._ends

    def for_one(self, micro_batch: int) -> Budget:
        rollouts = micro_batch if self.rollouts is None else min(micro_batch, self.rollouts)
        return rollouts, self.tokens, None

    def took(self, plan: ShardedPlan) -> None:
        self._is_first = False
        if self.rollouts is not None:
            self.rollouts = max(0, self.rollouts - len(plan))
        if self.tokens is not None:
            self.tokens = max(0, self.tokens - plan.token_count)


def _turn(handle: Handle, shard: int, step: int, args: tuple[Any, ...], function: Callable[[Any], Any], left: _Left) -> Any:
    """One call of a shard's sweep; begun again where its actor restarts in the middle."""
    while True:
        token = secrets.token_hex(8)
        kind, told = handle.calls.one(shard, "sweep", View, token, args)
        while kind == "plan":
            plan = ShardedPlan(handle.calls, {shard: told}, step, told["version"], handle.bounds)
            try:
                results = function(plan)
            except BaseException:
                handle.calls.one(shard, "sweep_on", token, None)
                raise
            left.took(plan)
            kind, told = handle.calls.one(shard, "sweep_on", token, results)
        if kind == "done":
            return told
