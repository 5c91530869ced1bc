"""A batch of a service: operations cut into the shards' parts, each part one commit."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import Any

import numpy as np

from .. import _rollstore as native
from .._arrays import U64
from ..errors import Error, InvalidError
from ._calls import Calls, Places
from ._errors import ShardUnavailableError
from ._plans import ShardedPlan

ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "int32": 4, "int64": 8, "uint32": 4, "uint8": 1}

Committed = tuple[int, int, list[tuple[int, int, int]], int]


class SentBatch:
    """Stands where the native half's batch does for one store."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._operations: list[tuple[str, tuple[Any, ...]]] = []

    def __len__(self) -> int:
        return len(self._operations)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in KINDS:
            raise AttributeError(name)

        def add(*args: Any) -> None:
            self._operations.append((name, args))

        return add

    def commit(self, store: Any) -> Committed:
        """Commits: what lies before an advance, the advance, what lies behind it; the cursor last."""
        operations, self._operations = self._operations, []
        done = _Counts()
        cursor: bytes | None = None
        part = _Part(self._calls)
        for name, args in operations:
            if name == "cursor":
                cursor = args[0]
            elif name in ADVANCES:
                part.commit(done)
                part = _Part(self._calls)
                self._calls.operate(name, *args)
                self._calls.look()
            else:
                part.add(name, args)
        part.commit(done)
        if cursor is not None:
            self._calls.operate("set_cursor", cursor)
            self._calls.look()
        return done.lsn, done.retired, done.applied, self._calls.view.version


ADVANCES = ("advance_ref_version", "advance_kl_ref_version")

KINDS = frozenset(
    (
        *ADVANCES,
        *("insert", "abandon_partials", "retire", "retire_created_before", "retire_version_before", "retire_groups", "apply", "cursor"),
    )
)


class _Counts:
    """What the parts of a batch did, together."""

    def __init__(self) -> None:
        self.lsn = self.retired = 0
        self.applied: list[tuple[int, int, int]] = []


class _Part:
    """Operations that each shard does in one commit."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._parts: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
        self._rows: dict[int, Places] = {}
        self._inserted: list[tuple[str, U64]] = []
        self._applies: list[list[tuple[int, int]]] = []
        """For each apply, the shards that do a part of it, and how many rollouts are theirs."""
        self._bytes = 0

    def add(self, name: str, args: tuple[Any, ...]) -> None:
        """Puts an operation into the parts of the shards that it concerns."""
        if name == "insert":
            self._insert(*args)
        elif name == "apply":
            self._apply(*args)
        elif name in ("retire", "abandon_partials"):
            for shard, rows in self._calls.split(args[0]).items():
                self._parts[shard].append((name, args[0][rows], *args[1:]))
        else:
            for shard in range(self._calls.shards):
                self._parts[shard].append((name, *args))

    def _insert(self, given: native.InsertArgs, how: str) -> None:
        if how in ("insert", "begin"):
            self._inserted.append((how, given["ids"]))
        for shard, rows in self._calls.split(given["ids"]).items():
            self._parts[shard].append(("insert", given, how, rows))
            self._rows.setdefault(shard, rows)
        self._bytes += sum(column[2].nbytes for column in given["columns"])

    def _apply(self, plan: ShardedPlan, computed: tuple[Any, ...]) -> None:
        values, offsets, present, _ = computed
        if len(offsets) - 1 != len(plan):
            raise InvalidError(f"there are {len(offsets) - 1} results, the plan has {len(plan)} rollouts")
        shards: list[tuple[int, int]] = []
        for shard, number, start, end, rows in plan.by_shard():
            flat, ends = _picked(values, offsets, rows)
            given: tuple[Any, ...] = (flat, ends, None if present is None else present[rows], [])
            self._parts[shard].append(("apply", number, start, end, plan.made_by, given))
            self._rows.setdefault(shard, rows)
            shards.append((shard, len(rows)))
        self._applies.append(shards)
        self._bytes += values.nbytes

    def commit(self, done: _Counts) -> None:
        """Sends the parts, and adds what they did."""
        try:
            parts = {shard: partial(_made, operations) for shard, operations in self._parts.items()}
            answers = self._calls.write(parts, self._rows, self._bytes)
        except ShardUnavailableError:
            raise  # what happened is not known
        except Error as error:
            self._take_back(error.__dict__.pop("parts_done", []))
            raise
        results = {shard: list(answer.applied) for shard, answer in answers.items()}
        for answer in answers.values():
            done.lsn = max(done.lsn, answer.lsn)
            done.retired += answer.retired
        for shards in self._applies:
            computed = dropped = declined = 0
            for shard, count in shards:
                # A write that was found done tells what it stored and dropped, in one for all its results.
                stored, late, _ = results[shard].pop(0) if results[shard] else (0, 0, 0)
                computed, dropped, declined = computed + stored, dropped + late, declined + max(0, count - stored - late)
            done.applied.append((computed, dropped, declined))

    def _take_back(self, shards: list[int]) -> None:
        """Ends what this batch inserted on some shards, since another refused its part: the call as a whole did nothing then."""
        back: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
        for how, ids in self._inserted:
            for shard, rows in self._calls.split(ids).items():
                if shard in shards:
                    back[shard].append(("retire", ids[rows], "other") if how == "insert" else ("abandon_partials", ids[rows]))
        self._calls.write({shard: partial(_made, operations) for shard, operations in back.items()}, None, 0)


def _made(operations: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """A shard's part. Rows are picked here, when it is sent: the shards before it write meanwhile."""
    made: list[tuple[Any, ...]] = []
    for operation in operations:
        if operation[0] == "insert":
            _, given, how, rows = operation
            operation = "insert", given if len(rows) == len(given["ids"]) else taken(given, rows), how
        made.append(operation)
    return made


def taken(given: native.InsertArgs, rows: Places) -> native.InsertArgs:
    """Some rows of an insert."""
    part: dict[str, Any] = dict(given)
    for name in ("ids", "created_steps", "group_ids", "rewards", "advantages", "old_versions", "kl_ref_versions"):
        array = part[name]
        part[name] = None if array is None else array[rows]
    for name in ("keys", "metadata", "version_spans"):
        listed = part[name]
        part[name] = None if listed is None else [listed[row] for row in rows]
    columns: list[Any] = []
    for name, dtype, values, offsets, present in given["columns"]:
        flat, ends = _picked(values, offsets, rows, ITEM_BYTES[dtype])
        columns.append((name, dtype, flat, ends, None if present is None else present[rows]))
    part["columns"] = columns
    return part  # pyright: ignore[reportReturnType]


def _picked(values: Any, offsets: Any, rows: Places, item: int = 1) -> tuple[Any, Any]:
    """Values of some rows, behind each other, and their offsets. ``item`` is the size of one, where ``values`` are bytes."""
    lens = np.diff(offsets)[rows]
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lens, dtype=np.int64)])
    begins = offsets[rows] * item
    pieces = [values[begin : begin + size] for begin, size in zip(begins.tolist(), (lens * item).tolist(), strict=True)]
    return (np.concatenate(pieces) if pieces else values[:0]), ends
