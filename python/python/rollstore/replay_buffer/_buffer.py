"""The buffer: a store, a policy for what has become stale, and one commit for each call.

Always true:
- The table holds what is live in the store, and no more.
- A call that raises has changed neither.
- The caller's cursor, the counts of what was dropped and the state of the draws lie in the store's cursor, and so change with the
  rollouts or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, cast

import numpy as np

from .._arrays import I64, U64, Bools, id_array
from .._batch import Reason
from .._plan import Plan
from .._results import Padded
from .._store import RolloutStore
from ..errors import InvalidError
from ._state import State
from ._table import Sample, Strategy, Table

Stale = Literal["drop", "mask", "keep", "recompute"]
"""What becomes of a rollout that is more than ``max_staleness`` steps old: its life ends; it is served with a mask of 0, so that its
group keeps its shape; it is served as it is; or its old logps are computed anew."""

By = Literal["rollout", "group"]
"""What is drawn, and what becomes stale, as one."""

NO_BOUND = 2**64 - 1


class ReplayBuffer:
    """A replay buffer that outlives its process: :meth:`open` one, or give it an open store that nobody else writes to.

    One thread at a time may call it.
    """

    def __init__(
        self,
        store: RolloutStore,
        *,
        max_staleness: int,
        stale: Stale = "drop",
        by: By = "rollout",
        group_size: int | None = None,
        capacity: int | None = None,
        seed: int = 0,
    ) -> None:
        if stale not in ("drop", "mask", "keep", "recompute"):
            raise InvalidError(f"stale is {stale!r}, it must be 'drop', 'mask', 'keep' or 'recompute'")
        if by not in ("rollout", "group"):
            raise InvalidError(f"by is {by!r}, it must be 'rollout' or 'group'")
        if stale == "recompute" and store.window != max_staleness:
            raise InvalidError(f"the store's window is {store.window}, max_staleness is {max_staleness}: to recompute they must agree")
        self.store = store
        self.max_staleness = max_staleness
        self._stale: Stale = stale
        self._by: By = by
        self._group_size = group_size
        self._capacity = capacity
        self._seed = seed
        self._held: set[int] = set()
        self._state = State.from_bytes(store.cursor)
        rollouts = [store[int(id)] for id in store.ids()]
        self._table = Table(
            np.array([rollout.id for rollout in rollouts], np.uint64),
            np.array([rollout.created_step for rollout in rollouts], np.uint64),
            np.array([_group(rollout.group_id, rollout.id) for rollout in rollouts], np.uint64),
        )

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        max_staleness: int,
        stale: Stale = "drop",
        by: By = "rollout",
        group_size: int | None = None,
        capacity: int | None = None,
        seed: int = 0,
        **options: Any,
    ) -> ReplayBuffer:
        """Opens the buffer in a directory, and creates it where there is none.

        Args:
            path: the directory of its store.
            max_staleness: steps for which a rollout may be trained on: ``age > max_staleness`` is stale.
            stale: what becomes of those that are.
            by: whether rollouts or whole groups are drawn, dropped and masked.
            group_size: rollouts of a complete group; others are not drawn. Any number, unless given.
            capacity: the most rollouts that are kept; the oldest go where more are put.
            seed: of the draws.
            options: of :meth:`rollstore.RolloutStore.open`, for example ``durability`` or ``run_identity``.
        """
        options = {"window": max_staleness, "max_version_lag": NO_BOUND, **options}
        store = RolloutStore.open(path, **options)
        try:
            return cls(
                store, max_staleness=max_staleness, stale=stale, by=by, group_size=group_size, capacity=capacity, seed=seed
            )
        except BaseException:
            store.close()
            raise

    # What it is.

    @property
    def step(self) -> int:
        """The policy's version: the last that :meth:`advance` was told."""
        return self._state.step

    @property
    def cursor(self) -> bytes | None:
        """The cursor of the last call that was given one."""
        return self._state.cursor

    @property
    def dropped(self) -> dict[str, int]:
        """How many rollouts were dropped, by reason, over all restarts. What was trained on is in ``store.stats()``."""
        return dict(self._state.dropped)

    def __len__(self) -> int:
        return len(self._table)

    # Writing.

    def put(
        self, step: int | None = None, *, group_ids: Any = None, cursor: bytes | None = None, **columns: Any
    ) -> U64:
        """Puts rollouts in and returns their ids, in one commit.

        Args:
            step: the version of the policy that sampled them; the current one unless given.
            group_ids: ``[B]``; each rollout is a group of its own unless given.
            cursor: where the caller stands, as bytes; it comes back with this commit.
            columns: ``completion_ids`` (needed: it tells their number), ``prompt_ids``, ``sampler_logps``, ``rewards``,
                ``advantages`` and others as :meth:`rollstore.RolloutStore.insert` takes them.

        Raises:
            InvalidError, DTypeError: as of ``insert``; nothing is put in.
        """
        if "completion_ids" not in columns:
            raise InvalidError("completion_ids are missing: they tell how many rollouts there are")
        count = _row_count(columns["completion_ids"])
        ids = self.store.allocate_ids(count)
        created = np.full(count, self.step if step is None else step, np.uint64)
        groups = ids if group_ids is None else id_array(group_ids, "group_ids")
        table = self._table.with_rows(ids, created, groups)
        evicted = np.empty(0, np.uint64)
        if self._capacity is not None and len(table) > self._capacity:
            evicted = table.ids[: len(table) - self._capacity]
        state = self._state.after(cursor=cursor, dropped={"capacity": len(evicted)})
        with self.store.batch() as batch:
            batch.insert(ids, created, group_ids=groups, **columns)
            if len(evicted):
                batch.retire(evicted, "evicted")
            batch.cursor(state.to_bytes())
        self._state = state
        self._table = table.where(~table.has(evicted))
        return ids

    def advance(self, step: int, *, cursor: bytes | None = None) -> int:
        """The weights changed, ``step`` is the policy's version now. Returns how many rollouts were dropped for it."""
        old = self._too_old(self._table, step) if self._stale == "drop" else np.zeros(len(self._table), np.bool_)
        ids = self._table.ids[old]
        state = self._state.after(cursor=cursor, dropped={"stale": len(ids)}, step=step)
        with self.store.batch() as batch:
            batch.advance_ref_version(step)
            if len(ids):
                batch.retire(ids, "stale")
            batch.cursor(state.to_bytes())
        self._state = state
        self._end(ids)
        return len(ids)

    def trained(self, ids: Any, *, cursor: bytes | None = None) -> int:
        """Ends the lives of rollouts that were trained on, and returns how many were live."""
        return self._retire(id_array(ids), "trained", {}, cursor)

    def drop(self, ids: Any, why: str, *, cursor: bytes | None = None) -> int:
        """Ends the lives of rollouts for a reason of your own, which :attr:`dropped` counts; returns how many were live."""
        numbers = id_array(ids)
        live = int(self._table.has(numbers).sum())
        return self._retire(numbers, "other", {why: live}, cursor)

    def set_cursor(self, cursor: bytes) -> None:
        """Sets the cursor alone."""
        state = self._state.after(cursor=cursor)
        self.store.set_cursor(state.to_bytes())
        self._state = state

    # Drawing.

    def sample(
        self,
        n: int,
        *,
        max_staleness: int | None = None,
        strategy: Strategy = "uniform",
        hold: bool = False,
        compute: Callable[[Plan], Any] | None = None,
    ) -> Sample:
        """Draws ``n`` rollouts, or the rollouts of ``n`` groups; fewer where there are not as many. None is drawn twice in one call.

        Args:
            n: how many.
            max_staleness: a bound for this draw: older ones are not drawn, and stay. Under ``stale="mask"`` they are masked.
            strategy: which come first.
            hold: whether they are not drawn again until they are trained, dropped or released, or the buffer is opened again: for
                several consumers.
            compute: under ``stale="recompute"``, computes old logps that are missing or too old: see
                :meth:`rollstore.RolloutStore.get_or_compute`.
        """
        self.store.check_open()
        if strategy not in ("uniform", "oldest", "newest"):
            raise InvalidError(f"strategy is {strategy!r}, it must be 'uniform', 'oldest' or 'newest'")
        if (compute is not None) != (self._stale == "recompute"):
            raise InvalidError(f"stale is {self._stale!r}: compute= belongs to 'recompute', and to nothing else")
        table = self._table
        if self._stale == "drop" or (max_staleness is not None and self._stale != "mask"):
            # What was put in too late to be trained on ends with the next advance.
            table = table.where(~self._too_old(table, self.step, max_staleness))
        if self._held:
            table = table.where(~table.has(np.array(sorted(self._held), np.uint64)))
        random = np.random.default_rng([self._seed, self._state.draws])
        if self._by == "group":
            drawn = table.whole_groups(self._group_size).draw_groups(n, strategy, random)
        else:
            drawn = table.draw(n, strategy, random)
        mask = np.ones(len(drawn), np.bool_)
        if self._stale == "mask":
            mask = ~self._too_old(drawn, self.step, max_staleness)
        old_logps = None if compute is None else self.store.get_or_compute(drawn.ids, self.step, compute)
        self._state = replace(self._state, draws=self._state.draws + 1)
        if hold:
            self._held.update(drawn.ids.tolist())
        return Sample(drawn.ids, drawn.groups, self._ages(drawn, self.step), mask, old_logps)

    def release(self, ids: Any) -> None:
        """Lets held rollouts be drawn again: whoever held them did not train on them."""
        self._held.difference_update(id_array(ids).tolist())

    def gather(self, ids: Any, column: str, out: Any = None, *, pad: float = 0.0, side: Literal["left", "right"] = "right") -> Padded:
        """One column of these rollouts, padded: see :meth:`rollstore.RolloutStore.gather`. Log-probs are served at any age: whether
        they may be is this buffer's policy."""
        return self.store.gather(ids, column, out, step=self.step, pad=pad, side=side, stale="allow")

    # Closing.

    def checkpoint(self, path: str | os.PathLike[str]) -> int:
        """Writes a checkpoint of the buffer: see :meth:`rollstore.RolloutStore.checkpoint`, and ``rollstore.restore`` for the way
        back."""
        self.store.set_cursor(self._state.to_bytes())
        return self.store.checkpoint(path)

    def close(self) -> None:
        """Closes the store."""
        self.store.close()

    def __enter__(self) -> ReplayBuffer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # Inside.

    def _ages(self, table: Table, step: int) -> I64:
        created = table.oldest_of_group() if self._by == "group" else table.created
        ages: I64 = step - created.astype(np.int64)
        return np.maximum(ages, 0)

    def _too_old(self, table: Table, step: int, bound: int | None = None) -> Bools:
        return np.greater(self._ages(table, step), self.max_staleness if bound is None else bound)

    def _retire(self, ids: U64, reason: Reason, dropped: dict[str, int], cursor: bytes | None) -> int:
        state = self._state.after(cursor=cursor, dropped=dropped)
        with self.store.batch() as batch:
            batch.retire(ids, reason)
            batch.cursor(state.to_bytes())
        self._state = state
        self._end(ids)
        return 0 if batch.committed is None else batch.committed.retired

    def _end(self, ids: U64) -> None:
        self._table = self._table.where(~self._table.has(ids))
        self._held.difference_update(ids.tolist())


def _row_count(column: Any) -> int:
    """The number of rows of a column, in any form that the store takes."""
    if isinstance(column, tuple):
        return len(cast("tuple[Any, Any]", column)[1]) - 1
    return len(column)


def _group(group_id: int | None, id: int) -> int:
    return id if group_id is None else group_id
