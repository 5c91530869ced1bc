"""Batches: any operations, one atomic commit."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from . import _rollstore as native
from ._arrays import id_array
from ._insert import Columns, insert_args, piece_args
from ._opened import Opened
from ._plan import Applied, Plan, computed_of
from .errors import InvalidError

if TYPE_CHECKING:
    from typing_extensions import Unpack

Reason = Literal["trained", "stale", "superseded", "evicted", "rewound", "other"]
"""Why a rollout's life ended; ``stats()`` counts each."""

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
    the block raises; after the block it takes nothing more::

        with store.batch() as batch:
            batch.insert(ids, step, completion_ids=tokens)
            batch.retire_created_before(step - 8)
            batch.cursor(loader_state)
        batch.committed.retired
    """

    def __init__(self, store: Opened) -> None:
        self._store = store
        self._operations: native.Batch | None = store._new_batch()
        self.committed: Committed | None = None
        """What the commit did, once it has."""

    @property
    def _batch(self) -> native.Batch:
        if self._operations is None:
            raise InvalidError("the block of this batch has ended, nobody would commit what is added now; begin another")
        return self._operations

    def insert(self, ids: Any, created_step: Any, *, replace: bool = False, **columns: Unpack[Columns]) -> None:
        """Inserts rollouts; see :meth:`RolloutStore.insert`."""
        self._batch.insert(insert_args(ids, created_step, columns), "replace" if replace else "insert")

    def begin_partial(self, ids: Any, created_step: Any, **columns: Unpack[Columns]) -> None:
        """Begins rollouts that are generated in parts; see :meth:`RolloutStore.begin_partial`."""
        self._batch.insert(insert_args(ids, created_step, columns), "begin")

    def append(self, ids: Any, completion_ids: Any, sampler_logps: Any, version: Any, *, lengths: Any = None) -> None:
        """Appends what the sampler made to partial rollouts; see :meth:`RolloutStore.append`."""
        self._batch.insert(piece_args(ids, completion_ids, sampler_logps, version, lengths), "append")

    def finish(self, ids: Any, created_step: Any, **columns: Unpack[Columns]) -> None:
        """Makes partial rollouts rollouts; see :meth:`RolloutStore.finish`. Pieces of this batch are not there yet: give the
        last tokens to this call."""
        self._batch.insert(insert_args(ids, created_step, columns), "finish")

    def abandon_partials(self, ids: Any) -> None:
        """Gives partial rollouts up; other ids are passed over."""
        self._batch.abandon_partials(id_array(ids))

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
        try:
            if kind is None:
                self.commit()
        finally:
            self._operations = None
