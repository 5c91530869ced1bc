"""Computing what is not fresh: plans, their results, and the calls that ask a function for them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np

from . import _rollstore as native
from ._arrays import id_array
from ._opened import step_of
from ._plan import Agree, Applied, Budget, Computed, Plan, agree_of, budget_of, computed_of
from ._reading import Side, is_left
from ._results import Recomputed, Served, SetAside, Swept
from ._writing import Writing
from .errors import InvalidError


class Computing(Writing):
    """Plans and their results."""

    def plan_for(self, ids: Any, step: int) -> Plan:
        """What must be computed for these ids before they are used at ``step``: those that are missing, stale, out of window or
        from the future. ``plan.positions`` are their rows. An id given twice is planned once."""
        return Plan(self._store.plan_for(id_array(ids), step_of(step)))

    def plan_kl_ref_for(self, ids: Any, step: int) -> Plan:
        """As :meth:`plan_for`, for KL reference log-probs: those that have none of the current KL reference version."""
        return Plan(self._store.plan_kl_ref_for(id_array(ids), step_of(step)))

    def plan_due(self, step: int, budget: Budget | int | None = None) -> Plan:
        """What is out of window or stale at ``step``, most urgent first, as far as the budget goes (a number means rollouts)."""
        return Plan(self._store.plan_due(step_of(step), budget_of(budget)))

    def apply(self, plan: Plan, values: Any) -> Applied:
        """Stores the results of a plan in one commit.

        A result is stored only where its rollout is what it was when the plan was made; it keeps the plan's version and step.

        Args:
            plan: what the results are of.
            values: log-probs of ``plan.ids``, in order, float32: a list of arrays, padded ``[len(plan), T]`` (of each row the
                first ``plan.lens`` count), ``(padded, lengths or mask)``, ``(values, offsets)``, or a mapping from ids. ``None``
                in a list, or an id left out, declines a rollout, which stays as it was.

        Raises:
            InvalidError: NaN, a wrong length, an id that is not of the plan: ``row`` is the row of the plan. Nothing is stored.
        """
        batch = self.batch()
        batch.apply(plan, values)
        return batch.commit().applied[0]

    def get_or_compute(
        self,
        ids: Any,
        step: int,
        fn: Callable[[Plan], Any],
        *,
        pad: float = 0.0,
        side: Side = "right",
        micro_batch: int | None = None,
        agree: Any = None,
    ) -> Served:
        """The old logps of these ids, fresh at ``step``: stored ones where they are fresh, computed ones where not.

        Args:
            ids: ``[B]``.
            step: the trainer's step.
            fn: takes a :class:`Plan` and returns its results in any form that :meth:`apply` takes. It may use the store. Where it
                raises, nothing is stored and its exception comes out.
            pad, side: as for :meth:`gather`.
            micro_batch: rollouts in one call of ``fn``; all of them unless given.
            agree: a function from a number to the greatest that any rank gave, or a torch process group. All ranks then call
                ``fn`` equally often, some with an empty plan, so that forwards of sharded models do not wait for ever.

        Raises:
            InvalidError: ``fn`` declined a rollout, or it was replaced meanwhile: ``row`` says which.
        """
        agreed = agree_of(agree)
        called = False

        def compute(native_plan: native.Plan) -> Computed:
            nonlocal called
            called = True
            plan = Plan(native_plan)
            return _merged([computed_of(part, fn(part)) for part in _parts(plan, micro_batch, agreed)])

        numbers = id_array(ids)
        values, row_len, lens, sources = self._store.get_or_compute(numbers, step_of(step), compute, pad, is_left(side))
        if not called and agreed is not None:
            # Nothing to compute here: the other ranks' forwards still need this one.
            for part in _parts(self.plan_for([], step), micro_batch, agreed):
                fn(part)
        if (sources > 1).any():
            row = int(np.argmax(sources > 1))
            why = "fn gave no result for it" if sources[row] == 2 else "it was replaced or computed meanwhile"
            id = int(numbers[row])
            raise InvalidError(f"rollout {id} has no fresh old_logps: {why}; ask again", id=id, row=row)
        return Served(values.reshape(len(lens), row_len), lens, sources == 1)

    def recompute(
        self,
        step: int,
        budget: Budget | int,
        fn: Callable[[Plan], Any],
        *,
        micro_batch: int = 64,
        agree: Any = None,
    ) -> Recomputed:
        """Computes what is due at ``step``, most urgent first, within the budget: micro-batches of one call of ``fn`` and one
        commit each, so that a crash costs at most one of them.

        ``fn`` and ``agree`` are those of :meth:`get_or_compute`. Where ``fn`` raises, the micro-batches before it stay stored.
        """
        agreed = agree_of(agree)
        limit = budget_of(budget)
        plan = self.plan_due(step, limit)
        ends = None if limit.seconds is None else time.monotonic() + limit.seconds
        done = Recomputed(0, 0, 0, 0)
        for part in _parts(plan, micro_batch, agreed, ends):
            values = fn(part)
            applied = self.apply(part, values) if len(part) else Applied(0, 0, 0)
            done = Recomputed(
                done.computed + applied.computed,
                done.dropped + applied.dropped,
                done.declined + applied.declined,
                done.micro_batches + 1,
            )
        return done

    def sweep(
        self,
        name: str,
        step: int,
        budget: Budget | int | None,
        fn: Callable[[Plan], Any],
        *,
        query: Literal["needs_recompute", "stale", "out_of_window", "all"] | tuple[Literal["created_before"], int] = "needs_recompute",
        order: Literal["oldest_born_first", "stalest_first", "log_order"] = "oldest_born_first",
        kl_ref: bool = False,
        complete_groups: int = 0,
        micro_batch: int = 64,
        retries: int = 2,
    ) -> Swept:
        """A pass over many rollouts that goes on under its name after a restart: computes what is left, as far as the budget goes.

        ``fn`` is that of :meth:`get_or_compute`. An exception in its list of results (not raised) says why one rollout failed: the
        others are stored, and it is tried again behind them, ``retries`` times. ``kl_ref`` computes KL reference log-probs;
        ``complete_groups`` takes only groups with so many live rollouts.
        """
        kind, of = (query, 0) if isinstance(query, str) else query
        swept = self._store.sweep(
            name,
            (kind, of),
            order,
            kl_ref,
            step_of(complete_groups, "complete_groups"),
            step_of(micro_batch, "micro_batch"),
            step_of(retries, "retries"),
            step_of(step),
            budget_of(budget),
            lambda plan: computed_of(Plan(plan), fn(Plan(plan))),
        )
        computed, dropped, failed, micro_batches, aside, finished = swept
        return Swept(computed, dropped, failed, micro_batches, [SetAside(*one) for one in aside], finished)

    def forget_sweep(self, name: str) -> bool:
        """Forgets how far a sweep has come; it begins anew. Returns whether any progress was stored."""
        return self._store.forget_sweep(name)


def _parts(plan: Plan, micro_batch: int | None, agree: Agree | None, ends: float | None = None) -> Iterator[Plan]:
    """The micro-batches of a plan: as many as the rank with the most has, the last ones empty."""
    size = len(plan) if micro_batch is None else micro_batch
    if micro_batch is not None and micro_batch < 1:
        raise InvalidError(f"micro_batch is {micro_batch}, it must be 1 at least")
    rounds = math.ceil(len(plan) / size) if len(plan) else 0
    if agree is not None and ends is None:
        rounds = agree(rounds)
    at = 0
    while True:
        more = at < rounds and (ends is None or at == 0 or time.monotonic() < ends)
        if agree is not None and ends is not None:
            # Clocks differ: whether to go on is agreed each time.
            more = agree(int(more)) > 0
        if not more:
            return
        yield plan.part(at * size, (at + 1) * size)
        at += 1


def _merged(parts: list[Computed]) -> Computed:
    """Results of micro-batches, behind each other."""
    values = [part[0] for part in parts]
    begins = np.cumsum([0, *(len(part[0]) for part in parts)])
    offsets = [part[1][:-1] + begin for part, begin in zip(parts, begins, strict=False)]
    present = [np.ones(len(part[1]) - 1, np.bool_) if part[2] is None else part[2] for part in parts]
    rows = np.cumsum([0, *(len(part[1]) - 1 for part in parts)])
    failed = [(row + int(first), why) for part, first in zip(parts, rows, strict=False) for row, why in part[3]]
    end = np.array([begins[-1]], np.int64)
    return (
        np.concatenate(values) if values else np.empty(0, np.float32),
        np.concatenate([*offsets, end]).astype(np.int64),
        np.concatenate(present) if present else np.empty(0, np.bool_),
        failed,
    )
