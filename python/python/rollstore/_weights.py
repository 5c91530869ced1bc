"""The weights: how the store is told that they change."""

from __future__ import annotations

from types import TracebackType

from . import _rollstore as native
from ._opened import Opened, number_of, step_of


class WeightUpdate:
    """A change of the weights, as a context manager: see :meth:`RolloutStore.weight_update`."""

    def __init__(self, store: Opened, step: int) -> None:
        self._store = store
        self._step = step
        self._update: native.WeightUpdate | None = None
        self.ref_version: int | None = None
        """The version behind the update, once it has ended."""

    def __enter__(self) -> WeightUpdate:
        self._update = self._store._store.begin_weight_update(self._step)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        update, self._update = self._update, None
        if update is not None:
            # Also where the block raised: when in doubt, stale.
            self.ref_version = update.finish()


class Weights(Opened):
    """Changes of the weights."""

    def weight_update(self, step: int) -> WeightUpdate:
        """Changes the weights inside ``with store.weight_update(step):``, and advances the ref version at its end, also where the
        block raises: when in doubt, stale. Plans of other threads wait meanwhile; one of this thread is refused.

        Raises :class:`InvalidError` for a step that the trainer cannot be at; the block does not run then.
        """
        return WeightUpdate(self, step_of(step))

    def advance_ref_version(self, step: int, label: int | None = None) -> int:
        """Counts the ref version up and returns it: the old policy changed at ``step``. One log record, whatever the number of
        rollouts. ``label`` is the trainer's own version number; the same again is a no-op."""
        return self._store.advance_ref_version(step_of(step), number_of(label, "label"))

    def advance_kl_ref_version(self, label: int | None = None) -> int:
        """Counts the version of the KL reference up and returns it; old logps stay fresh."""
        return self._store.advance_kl_ref_version(number_of(label, "label"))
