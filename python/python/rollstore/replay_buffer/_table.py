"""What the buffer knows of each rollout without reading it, which are drawn, and what a draw gives.

The table is derived from the store: it is built when a buffer opens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from .._arrays import I64, U64, Bools
from .._results import Served

Strategy = Literal["uniform", "oldest", "newest"]
"""Which rollouts are drawn first: at random, those that were sampled longest ago, or those that were sampled last."""


@dataclass(frozen=True)
class Sample:
    """Rollouts to train on. All arrays have a value for each of them, in the same order."""

    ids: U64
    group_ids: U64
    ages: I64
    """Steps since they were sampled; where groups are drawn, since the oldest of the group was."""
    mask: Bools
    """Which count in the loss: all but the stale ones under ``stale="mask"``."""
    old_logps: Served | None
    """Old logps, fresh, under ``stale="recompute"``."""

    def __len__(self) -> int:
        return len(self.ids)


class Table:
    """Ids, created steps and groups of the live rollouts, oldest first."""

    def __init__(self, ids: U64, created: U64, groups: U64) -> None:
        order = np.lexsort((ids, created))
        self.ids, self.created, self.groups = ids[order], created[order], groups[order]

    def __len__(self) -> int:
        return len(self.ids)

    def with_rows(self, ids: U64, created: U64, groups: U64) -> Table:
        """The table with more rollouts."""
        return Table(
            np.concatenate([self.ids, ids]), np.concatenate([self.created, created]), np.concatenate([self.groups, groups])
        )

    def where(self, kept: Bools) -> Table:
        """The rows that are kept."""
        return Table(self.ids[kept], self.created[kept], self.groups[kept])

    def has(self, ids: U64) -> Bools:
        """Which rows are of these ids. Shape ``[len(self)]``."""
        return np.isin(self.ids, ids)

    def whole_groups(self, size: int | None) -> Table:
        """The rows of groups that are complete: of `size` rollouts, or of any number."""
        if size is None or not len(self):
            return self
        _, inverse, counts = np.unique(self.groups, return_inverse=True, return_counts=True)
        return self.where(counts[inverse] == size)

    def oldest_of_group(self) -> U64:
        """For each row the created step of its group's oldest rollout. Shape ``[len(self)]``."""
        first: dict[int, int] = {}
        for group, created in zip(self.groups.tolist(), self.created.tolist(), strict=True):
            first.setdefault(group, created)  # rows are in order of age
        return np.array([first[group] for group in self.groups.tolist()], np.uint64)

    def draw(self, count: int, strategy: Strategy, random: np.random.Generator) -> Table:
        """`count` rollouts, or all where there are fewer, in the order of the strategy."""
        return self._take(_order(len(self), strategy, random)[:count])

    def draw_groups(self, count: int, strategy: Strategy, random: np.random.Generator) -> Table:
        """The rollouts of `count` groups, or of all where there are fewer: group by group, in the order of the strategy."""
        _, firsts, inverse = np.unique(self.groups, return_index=True, return_inverse=True)
        by_age = np.argsort(firsts, kind="stable")
        groups = by_age[_order(len(by_age), strategy, random)[:count]]
        rows = [np.flatnonzero(inverse == group) for group in groups]
        return self._take(np.concatenate(rows) if rows else np.empty(0, np.int64))

    def _take(self, rows: np.typing.NDArray[np.int64]) -> Table:
        taken = Table.__new__(Table)
        taken.ids, taken.created, taken.groups = self.ids[rows], self.created[rows], self.groups[rows]
        return taken


def _order(count: int, strategy: Strategy, random: np.random.Generator) -> np.typing.NDArray[np.int64]:
    if strategy == "uniform":
        return random.permutation(count)
    rows = np.arange(count)
    return rows if strategy == "oldest" else rows[::-1]
