"""Partial rollouts: what an interrupted generation made so far, kept until it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ._arrays import id_array
from ._writing import Writing

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._insert import Columns


class OpenPartial(NamedTuple):
    """A partial rollout in short."""

    id: int
    created_step: int
    """The step at which its generation began."""
    tokens: int
    """Tokens of the completion so far."""
    version_spans: list[tuple[int, int]]
    """The sampler's versions with their numbers of tokens, in order."""
    is_whole: bool
    """False where a piece was lost to damage: it can only be abandoned."""


class Partial(NamedTuple):
    """What an interrupted generation made so far: all that it needs to go on."""

    id: int
    created_step: int
    """The step at which its generation began."""
    group_id: int | None
    """The group of rollouts that share its prompt."""
    key: str | None
    """The string key, for one that was begun by one."""
    prompt_ids: npt.NDArray[np.uint32] | None
    """Token ids of the prompt, where it was begun with them. Shape ``[prompt tokens]``."""
    completion_ids: npt.NDArray[np.uint32]
    """Token ids of the completion so far. Shape ``[tokens]``."""
    sampler_logps: npt.NDArray[np.float32]
    """Log-probs that the sampler reported, in nats, bit for bit. Shape ``[tokens]``."""
    version_spans: list[tuple[int, int]]
    """The sampler's versions with their numbers of tokens, in order."""


class Partials(Writing):
    """Rollouts that are generated in parts. Until :meth:`finish` they are none: no read, list, plan or retirement sees them."""

    def begin_partial(self, ids: Any, created_step: Any, **columns: Unpack[Columns]) -> int:
        """Begins ``B`` rollouts that are generated in parts, in one commit; their ids are taken from now on.

        ``columns`` are those of :meth:`insert` that are known before the first token: ``prompt_ids`` (with ``prompt_lengths``) and
        ``group_ids``.

        Returns the LSN. Raises :class:`InvalidError` for an id that is live or begun, or other columns; ``row`` says which.
        """
        batch = self.batch()
        batch.begin_partial(ids, created_step, **columns)
        return batch.commit().lsn

    def append(self, ids: Any, completion_ids: Any, sampler_logps: Any, version: Any, *, lengths: Any = None) -> int:
        """Appends what the sampler made since the last time to ``B`` partial rollouts, in one commit.

        Args:
            ids: ``[B]``, begun.
            completion_ids, sampler_logps: the new tokens and their log-probs, in any form that :meth:`insert` takes; a row of
                none is fine.
            version: the sampler's version that made them; one, or ``[B]``.
            lengths: what counts of padded ones.

        Returns:
            The LSN; 0 where nothing was to be written.

        Raises:
            NotFoundError: an id that was not begun; ``row`` says which. Nothing is stored.
            InvalidError: lengths that do not agree, or a rollout that becomes too large.
            DamagedError: a rollout that lost a piece.
        """
        batch = self.batch()
        batch.append(ids, completion_ids, sampler_logps, version, lengths=lengths)
        return batch.commit().lsn

    def finish(self, ids: Any, created_step: Any, **columns: Unpack[Columns]) -> int:
        """Makes ``B`` partial rollouts rollouts, in one commit: each as if it had been inserted whole.

        ``columns`` are those of :meth:`insert`, for the whole rollout, but for ``completion_ids`` and ``sampler_logps``: the last
        tokens, if there are any left, with their ``version_spans``. ``created_step`` is that of the beginning.

        Returns the LSN. Raises :class:`NotFoundError` for an id that was not begun, :class:`InvalidError` where something
        contradicts what was appended, :class:`DamagedError`; ``row`` says which.
        """
        batch = self.batch()
        batch.finish(ids, created_step, **columns)
        return batch.commit().lsn

    def abandon_partials(self, ids: Any) -> int:
        """Gives partial rollouts up and returns how many there were; other ids are passed over, and free again are theirs."""
        return self._store.abandon_partials(id_array(ids))

    def partials(self) -> list[OpenPartial]:
        """Every partial rollout, oldest first, then by id: after a crash, what generation goes on with."""
        return [OpenPartial(*one) for one in self._store.partials()]

    def read_partials(self, ids: Any) -> list[Partial | None]:
        """What there is of each of these partial rollouts, in order; ``None`` where an id is of none.

        Raises :class:`DamagedError` where a piece is not what was written, or missing; ``row`` says which.
        """
        return [None if one is None else Partial(*one) for one in self._store.read_partials(id_array(ids))]
