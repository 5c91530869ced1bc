"""One generation of rollouts, and how far it has been used.

A window is what TRL generates at once: `steps_per_generation` slices of one micro-batch each, which are consumed `num_iterations`
times in turn. Old log-probs are those of the weights that generated it. They are needed for a slice that is consumed after the
weights changed, and for no other.

Always true:
- What is decided here follows from the micro-step and from weight changes that were seen. Both are the same on every rank, so that
  all ranks run the same forwards; nothing depends on what a store holds.
- No change of the weights is foretold. How many micro-steps an optimizer step takes varies: the last one of an epoch takes what is
  left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Window:
    """A generation of rollouts in use."""

    slices: int
    """Micro-batches that it was cut into: TRL's `steps_per_generation`."""
    iterations: int
    """How often each slice is consumed: TRL's `num_iterations`."""
    ids: list[int]
    """The rollouts of this rank, in the order of generation."""
    unrestorable: str | None = None
    """Why it cannot be brought back from the store; `None` where it can."""
    updates: int = 0
    """Changes of the weights that were seen since it was generated."""
    stored: set[int] = field(default_factory=set[int])
    """Slices whose old logps are in the store."""
    captured: dict[int, Any] = field(default_factory=dict[int, Any])
    """Old logps by slice, `[rows, T]`, that are not in the store yet. They get there before the weights change."""

    @property
    def length(self) -> int:
        """Micro-steps from one generation to the next."""
        return self.slices * self.iterations

    @property
    def is_stale(self) -> bool:
        """Whether the weights are others than those that generated it."""
        return self.updates > 0

    def slice_at(self, micro_step: int) -> int:
        """The slice that a micro-step consumes."""
        return micro_step % self.slices

    def is_used_after(self, micro_step: int, slice: int) -> bool:
        """Whether a slice is consumed again, after this micro-step."""
        begin = micro_step % self.length + 1
        return any(at % self.slices == slice for at in range(begin, self.length))

    def wants(self, micro_step: int, slice: int) -> bool:
        """Whether the old logps of a slice must be kept, now or before the weights change."""
        known = slice in self.stored or slice in self.captured
        return not self.is_stale and not known and self.is_used_after(micro_step, slice)

    def pending(self, micro_step: int) -> list[int]:
        """Slices that need a forward of their own, if the weights change at the end of this micro-step. The one that it consumes
        is not among them: its training forward tells its old logps."""
        now = self.slice_at(micro_step)
        return [slice for slice in range(self.slices) if slice != now and self.wants(micro_step, slice)]
