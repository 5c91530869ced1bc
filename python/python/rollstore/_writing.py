"""Writing: rollouts in, rollouts out, each call one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._arrays import U64
from ._batch import Batch, Reason
from ._opened import Opened, step_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._insert import Columns


class Writing(Opened):
    """Writes: each call is a commit of its own. :meth:`batch` makes one of several."""

    def batch(self) -> Batch:
        """Operations that become one atomic commit."""
        return Batch(self)

    def insert(self, ids: Any, created_step: Any, *, replace: bool = False, **columns: Unpack[Columns]) -> int:
        """Inserts ``B`` rollouts in one commit: all of them, or none.

        A column of ``B`` rows is a list of ``B`` arrays, in which ``None`` stands for a row that has none; or padded ``[B, T]``
        with ``lengths``; or a pair ``(values, offsets)``. Arrays are NumPy's, torch's on the CPU, or plain lists.

        Args:
            ids: ``[B]``, not live yet. String keys are kept with their rollouts.
            created_step: the step at which they were sampled; one, or ``[B]``.
            completion_ids, prompt_ids: token ids, of any whole type; stored as uint32.
            old_logps: log-probs under the old policy, float32, in nats. NaN, infinities and values above 0.001 are refused where
                the loss mask is not 0.
            old_version: the ref version whose weights made ``old_logps``: the one that was current when their computation began,
                never "now". One, or ``[B]``.
            sampler_logps: log-probs that the inference engine reported, float32; NaN for "not reported", kept bit for bit.
            kl_ref_logps, kl_ref_version: log-probs under the KL reference model, and its version.
            loss_mask: 1 where a completion token counts in the loss, else 0.
            group_ids, rewards, advantages: one number a rollout.
            columns: columns of your own by name, float32, float16, bfloat16, int32, int64, uint32 or uint8. Well-known ones may
                be given here under the names of TRL, verl or AReaL.
            lengths: what counts of padded completion columns: ``[B]`` lengths, or a mask ``[B, T]`` of any padding side.
            prompt_lengths: the same for ``prompt_ids``.
            column_lengths: the same for single columns, by name.
            metadata: bytes of your own, one for each rollout.
            version_spans: for each rollout, the versions that the sampler went through, with their numbers of tokens.
            provenance: how log-prob columns were made.
            replace: whether the ids are live, and these rollouts take their places.

        Returns:
            The commit's number in the log (LSN).

        Raises:
            DTypeError: values of another type; nothing is cast down silently.
            InvalidError: lengths that do not agree, NaN, a live id, an id below 0, a version that was never issued. ``row`` says
                which rollout.
        """
        batch = self.batch()
        batch.insert(ids, created_step, replace=replace, **columns)
        return batch.commit().lsn

    def retire(self, ids: Any, reason: Reason = "trained") -> int:
        """Ends rollouts and returns how many were live; the others are passed over."""
        batch = self.batch()
        batch.retire(ids, reason)
        return batch.commit().retired

    def retire_created_before(self, step: int, reason: Reason = "evicted") -> int:
        """Ends every rollout created before ``step``, and returns how many: one small record, whatever their number."""
        batch = self.batch()
        batch.retire_created_before(step_of(step), reason)
        return batch.commit().retired

    def retire_version_before(self, version: int, reason: Reason = "stale") -> int:
        """Ends every rollout whose old logps are of a ref version before ``version``, and returns how many."""
        batch = self.batch()
        batch.retire_version_before(step_of(version, "version"), reason)
        return batch.commit().retired

    def retire_groups(self, group_ids: Any, reason: Reason = "trained") -> int:
        """Ends the rollouts of whole groups, and returns how many rollouts ended."""
        batch = self.batch()
        batch.retire_groups(group_ids, reason)
        return batch.commit().retired

    def set_cursor(self, cursor: bytes) -> int:
        """Sets the cursor alone: where the trainer itself stands, as bytes of its own. Returns the LSN."""
        batch = self.batch()
        batch.cursor(cursor)
        return batch.commit().lsn

    def allocate_ids(self, count: int) -> U64:
        """``count`` ids in a row that were never used or handed out before. Shape ``[count]``."""
        return self._store.allocate_ids(step_of(count, "count"))
