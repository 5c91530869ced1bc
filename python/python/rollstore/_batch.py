"""Batches: any operations, one atomic commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np

from . import _rollstore as native
from ._arrays import I64, Bools, Rows, id_array, kept_of, number_array, rows_of
from ._plan import Applied, Plan, computed_of
from .errors import InvalidError

if TYPE_CHECKING:
    from ._store import RolloutStore

Reason = Literal["trained", "stale", "superseded", "evicted", "rewound", "other"]
"""Why a rollout's life ended; ``stats()`` counts each."""

WELL_KNOWN = {
    "prompt_ids": "uint32",
    "completion_ids": "uint32",
    "loss_mask": "uint8",
    "old_logps": "float32",
    "sampler_logps": "float32",
    "kl_ref_logps": "float32",
}
"""The well-known columns and their types."""


class Provenance(NamedTuple):
    """How a log-prob column was made. Raw and processed log-probs of one token differ, so that asking for one and getting the
    other is an error."""

    engine: str
    """The engine that computed them, for example ``"vllm 0.11"``."""
    kind: Literal["raw", "processed"] = "raw"
    """``"raw"`` for ``log_softmax(logits)``, ``"processed"`` after temperature, top-p or top-k."""
    temperature: float = 1.0
    top_p: float = 1.0
    """Nucleus mass; 1 where it was off."""
    top_k: int = 0
    """Number of candidates kept; 0 where it was off."""


class Committed(NamedTuple):
    """What a committed batch did."""

    lsn: int
    """The batch's last number in the log; :meth:`RolloutStore.wait_durable` takes it."""
    retired: int
    """Rollouts that retirements of the batch ended; ids that were not live are not counted."""
    applied: list[Applied]
    """What became of the results of each ``apply``, in order."""
    ref_version: int
    """The ref version behind the batch."""


class Batch:
    """Operations that become one atomic commit: after a crash all of them happened, or none.

    They are applied in order, each seeing the ones before it. As a context manager it commits at the end of the block, unless
    the block raises::

        with store.batch() as batch:
            batch.insert(ids, step, completion_ids=tokens)
            batch.retire_created_before(step - 8)
            batch.cursor(loader_state)
        batch.committed.retired
    """

    def __init__(self, store: RolloutStore) -> None:
        self._store = store
        self._batch = native.Batch()
        self.committed: Committed | None = None
        """What the commit did, once it has."""

    def insert(
        self,
        ids: Any,
        created_step: Any,
        *,
        completion_ids: Any = None,
        prompt_ids: Any = None,
        old_logps: Any = None,
        old_version: Any = None,
        sampler_logps: Any = None,
        kl_ref_logps: Any = None,
        kl_ref_version: Any = None,
        loss_mask: Any = None,
        group_ids: Any = None,
        rewards: Any = None,
        advantages: Any = None,
        columns: Mapping[str, Any] | None = None,
        lengths: Any = None,
        prompt_lengths: Any = None,
        column_lengths: Mapping[str, Any] | None = None,
        metadata: Sequence[bytes] | None = None,
        version_spans: Sequence[Sequence[tuple[int, int]]] | None = None,
        provenance: Mapping[str, Provenance] | None = None,
        replace: bool = False,
    ) -> None:
        """Inserts rollouts; see :meth:`RolloutStore.insert`."""
        keys = list(ids) if _are_keys(ids) else None
        numbers = id_array(ids)
        count = len(numbers)
        given: dict[str, Any] = {
            "completion_ids": completion_ids,
            "prompt_ids": prompt_ids,
            "old_logps": old_logps,
            "sampler_logps": sampler_logps,
            "kl_ref_logps": kl_ref_logps,
            "loss_mask": loss_mask,
        }
        for name, values in (columns or {}).items():
            ours = native.column_name(name)
            if given.get(ours) is not None:
                raise InvalidError(f"column {ours} is given twice" + (f", as {name} too" if ours != name else ""))
            given[ours] = values
        rows = _rows(given, count, lengths, prompt_lengths, column_lengths or {})
        self._batch.insert(
            {
                "ids": numbers,
                "keys": keys,
                "created_steps": number_array(created_step, count, "uint64", "created_step"),
                "group_ids": None if group_ids is None else number_array(group_ids, count, "uint64", "group_ids"),
                "rewards": None if rewards is None else number_array(rewards, count, "float32", "rewards"),
                "advantages": None if advantages is None else number_array(advantages, count, "float32", "advantages"),
                "old_versions": None if old_version is None else number_array(old_version, count, "uint64", "old_version"),
                "kl_ref_versions": None
                if kl_ref_version is None
                else number_array(kl_ref_version, count, "uint64", "kl_ref_version"),
                "metadata": None if metadata is None else _each(metadata, count, "metadata"),
                "version_spans": None
                if version_spans is None
                else [list(spans) for spans in _each(version_spans, count, "version_spans")],
                "provenance": [
                    (native.column_name(name), made.engine, made.kind == "processed", made.temperature, made.top_p, made.top_k)
                    for name, made in (provenance or {}).items()
                ],
                "columns": [
                    (name, column.dtype, column.as_bytes(), column.offsets, column.present) for name, column in rows.items()
                ],
            },
            replace,
        )

    def retire(self, ids: Any, reason: Reason = "trained") -> None:
        """Ends rollouts. Ids that are not live are passed over; :attr:`Committed.retired` says how many were."""
        self._batch.retire(id_array(ids), reason)

    def retire_created_before(self, step: int, reason: Reason = "evicted") -> None:
        """Ends every rollout created before ``step``: one small record, whatever their number."""
        self._batch.retire_created_before(step, reason)

    def retire_version_before(self, version: int, reason: Reason = "stale") -> None:
        """Ends every rollout whose old logps are of a version before ``version``."""
        self._batch.retire_version_before(version, reason)

    def retire_groups(self, group_ids: Any, reason: Reason = "trained") -> None:
        """Ends the rollouts of whole groups."""
        self._batch.retire_groups(id_array(group_ids, "group_ids"), reason)

    def apply(self, plan: Plan, values: Any) -> None:
        """Stores the results of a plan; see :meth:`RolloutStore.apply`."""
        self._batch.apply(plan._plan, computed_of(plan, values))

    def advance_ref_version(self, step: int, label: int | None = None) -> None:
        """Counts the ref version up: the weights changed at ``step``."""
        self._batch.advance_ref_version(step, label)

    def advance_kl_ref_version(self, label: int | None = None) -> None:
        """Counts the version of the KL reference up."""
        self._batch.advance_kl_ref_version(label)

    def cursor(self, cursor: bytes) -> None:
        """Sets the cursor: where the trainer itself stands, as bytes of its own. It comes back with the same commit."""
        self._batch.cursor(bytes(cursor))

    def commit(self) -> Committed:
        """Commits. When it returns, everything is seen by readers and is as durable as the store was opened.

        Raises :class:`InvalidError` or :class:`NotFoundError` where an operation is refused, :class:`FullError`,
        :class:`PoisonedError`, :class:`StoreIOError`. Nothing of the batch happened then, and it is empty.
        """
        lsn, retired, applied, ref_version = self._batch.commit(self._store._store)
        self.committed = Committed(lsn, retired, [Applied(*counts) for counts in applied], ref_version)
        return self.committed

    def __len__(self) -> int:
        return len(self._batch)

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.commit()


def _are_keys(ids: Any) -> bool:
    return isinstance(ids, (list, tuple)) and bool(cast("Sequence[Any]", ids)) and isinstance(ids[0], str)


def _each(values: Sequence[Any], count: int, what: str) -> list[Any]:
    if len(values) != count:
        raise InvalidError(f"{what} has {len(values)} entries, there are {count} rows")
    return list(values)


def _rows(
    given: dict[str, Any], count: int, lengths: Any, prompt_lengths: Any, column_lengths: Mapping[str, Any]
) -> dict[str, Rows]:
    """The rows of each column that is given."""
    kept: I64 | Bools | None = None if lengths is None else kept_of(lengths, count, "lengths")
    prompt_kept: I64 | Bools | None = None if prompt_lengths is None else kept_of(prompt_lengths, count, "prompt_lengths")
    rows: dict[str, Rows] = {}
    for name, values in given.items():
        if values is None:
            continue
        counts = prompt_kept if name == "prompt_ids" else kept
        if name in column_lengths:
            counts = kept_of(column_lengths[name], count, f"lengths of {name}")
        rows[name] = rows_of(values, count, WELL_KNOWN.get(name), name, counts)
        if name == "completion_ids" and kept is None and rows[name].present is None:
            # Lengths of the others, where the completions tell them.
            kept = rows[name].lens
    _check_lens(rows, count)
    return rows


def _check_lens(rows: dict[str, Rows], count: int) -> None:
    """Per-token columns agree: here the row can be told."""
    per_token = [name for name in WELL_KNOWN if name in rows and name != "prompt_ids"]
    for name in per_token[1:]:
        first, other = rows[per_token[0]], rows[name]
        differ = first.lens != other.lens
        for present in (first.present, other.present):
            if present is not None:
                differ &= present
        if differ.any():
            row = int(np.argmax(differ))
            lens = int(first.lens[row]), int(other.lens[row])
            raise InvalidError(f"{per_token[0]} has {lens[0]} values, {name} has {lens[1]}", row=row)
