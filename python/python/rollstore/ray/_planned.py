"""A shard's half of plans and of writes: what a client names by numbers becomes the native half's own objects."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from .. import _rollstore as native
from .._arrays import U64
from ..errors import InvalidError
from ._ledger import Ledger

PLANS_MAX = 256
"""Plans that a shard keeps. The oldest go first; their results come too late then, as after a reopening."""


class Planned:
    """The plans that clients hold."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: OrderedDict[int, native.Plan] = OrderedDict()
        self._next = 0

    def keep(self, plan: native.Plan, ledger: Ledger) -> dict[str, Any]:
        """Keeps a plan, and tells the client what it needs to know of it."""
        with self._lock:
            number = self._next
            self._next += 1
            self._plans[number] = plan
            while len(self._plans) > PLANS_MAX:
                self._plans.popitem(last=False)
        return {
            "plan": number,
            "ids": plan.ids,
            "positions": plan.positions,
            "tokens": np.array([plan.part(row, row + 1).token_count for row in range(len(plan))], np.int64),
            "version": ledger.versions.service(plan.ref_version),
            "step": plan.step,
            "damaged": plan.damaged,
        }

    def get(self, number: int) -> native.Plan | None:
        """A plan; ``None`` for one that is gone."""
        with self._lock:
            return self._plans.get(number)

    def clear(self) -> None:
        """Forgets all of them: their store was closed."""
        with self._lock:
            self._plans.clear()

    def put(self, batch: native.Batch, operation: tuple[Any, ...], ledger: Ledger) -> int | None:
        """Adds an operation of a client to a batch. Returns, of a plan that is gone, how many results came too late; else ``None``."""
        kind, *args = operation
        if kind == "insert":
            _own_versions(args[0], ledger)
            batch.insert(args[0], args[1])
        elif kind == "retire_version_before":
            batch.retire_version_before(_first_own(ledger, args[0]), args[1])
        elif kind == "apply":
            number, start, end, version, computed = args
            plan = self.get(number)
            if plan is None:
                return _given(computed)
            part = plan.part(start, end)
            batch.apply(part if version is None else part.made_with(_own(ledger, version)), computed)
        else:
            getattr(batch, kind)(*args)
        return None

    def applied(
        self, operations: Sequence[tuple[Any, ...]], lost: list[int | None], applied: list[tuple[int, int, int]]
    ) -> list[tuple[int, int, int]]:
        """What became of each operation's results, those too that came too late."""
        found = iter(applied)
        counts: list[tuple[int, int, int]] = []
        for operation, late in zip(operations, lost, strict=True):
            if operation[0] == "apply":
                _, _, start, end, _, _ = operation
                counts.append(next(found) if late is None else (0, late, end - start - late))
        return counts


def _given(computed: tuple[Any, ...]) -> int:
    _, offsets, present, _ = computed
    return len(offsets) - 1 if present is None else int(np.count_nonzero(present))


def _own(ledger: Ledger, version: int) -> int:
    own = ledger.versions.own(version)
    if own is None:
        raise InvalidError(f"version {version} was never issued; the current one is {ledger.versions.current}")
    return own


def _first_own(ledger: Ledger, version: int) -> int:
    """The store's number of the first of its versions that is not before one of the service's."""
    own = ledger.versions.own(version)
    if own is not None:
        return own
    later = ledger.versions.after(version)
    return _own(ledger, later[0]) if later else _own(ledger, ledger.versions.current) + 1


def _own_versions(args: dict[str, Any], ledger: Ledger) -> None:
    """The versions of an insert, as the store counts them."""
    for name, versions in (("old_versions", ledger.versions), ("kl_ref_versions", ledger.kl_versions)):
        given = cast("U64 | None", args[name])
        if given is None:
            continue
        unique, where = np.unique(given, return_inverse=True)
        own = [versions.own(int(version)) for version in unique]
        if None in own:
            row = int(np.argmax(where == own.index(None)))
            message = f"version {given[row]} was never issued; the current one is {versions.current}"
            raise InvalidError(message, id=int(args["ids"][row]), row=row)
        args[name] = np.array(own, np.uint64)[where]
