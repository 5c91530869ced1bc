"""What a checkpoint keeps beside the rollouts, and when it fits the run that resumes from it.

The state lies in the store's cursor, so that it and the rollouts are one checkpoint: complete, or absent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .._store import RolloutStore
from ..errors import Error, LockedError
from ._rows import Layout
from ._window import Window

FORMAT = 1
FOLDER = "_rollouts"
"""Under the trainer's output; the underscore keeps it out of uploads to a hub."""


class RolloutsNotRestored(UserWarning):
    """A resume could not bring the rollouts back, and the run generates them again, as it would without a store: losses differ from
    those of a run that was not interrupted. ``warnings.simplefilter("error", RolloutsNotRestored)`` makes it an error."""


@dataclass
class Saved:
    """Where a run stands, on one rank."""

    shape: dict[str, Any]
    """Settings that the order of rollouts depends on. A run with others cannot go on in the middle of a window."""
    micro_step: int
    """TRL's `_step`: micro-steps since the run began, over all its restarts."""
    generation: int
    """Generations since the run began."""
    epochs: int
    """Whole epochs behind it."""
    window: Window | None
    """The generation in use."""
    layout: Layout | None
    order: list[list[int]]
    """Ids of each slice, in the order that TRL shuffled them into."""

    def to_bytes(self) -> bytes:
        """Itself as a cursor."""
        window = self.window
        state = {
            "format": FORMAT,
            "shape": self.shape,
            "micro_step": self.micro_step,
            "generation": self.generation,
            "epochs": self.epochs,
            "order": self.order,
            "layout": None if self.layout is None else asdict(self.layout),
            "window": None
            if window is None
            else {"ids": window.ids, "unrestorable": window.unrestorable, "updates": window.updates, "stored": sorted(window.stored)},
        }
        return json.dumps(state).encode()

    @classmethod
    def from_bytes(cls, cursor: bytes) -> Saved:
        """The state of a cursor. Raises :class:`ValueError` for bytes that are none."""
        state = json.loads(cursor)
        if state.get("format") != FORMAT:
            raise ValueError(f"its state has format {state.get('format')}, this version reads {FORMAT}")
        shape, window = state["shape"], state["window"]
        return cls(
            shape=shape,
            micro_step=state["micro_step"],
            generation=state["generation"],
            epochs=state["epochs"],
            order=state["order"],
            layout=None if state["layout"] is None else Layout(**state["layout"]),
            window=None
            if window is None
            else Window(
                slices=shape["steps_per_generation"],
                iterations=shape["num_iterations"],
                ids=window["ids"],
                unrestorable=window["unrestorable"],
                updates=window["updates"],
                stored=set(window["stored"]),
            ),
        )


def misfit(checkpoint: str, shape: dict[str, Any]) -> str | None:
    """Why a run of this shape cannot go on from the rollouts of a checkpoint; `None` where it can. Writes nothing."""
    if not os.path.isdir(checkpoint):
        return f"there are no rollouts at {checkpoint}"
    try:
        with RolloutStore.open(checkpoint, read_only=True) as store:
            if store.cursor is None:
                return f"{checkpoint} holds no state of a trainer"
            saved = Saved.from_bytes(store.cursor)
    except LockedError:
        raise
    except (Error, ValueError, KeyError, TypeError) as error:
        return f"{checkpoint} cannot be read: {error}"
    names = [name for name in {**saved.shape, **shape} if saved.shape.get(name) != shape.get(name)]
    if names:
        changed = [f"{name} was {saved.shape.get(name)}, is {shape.get(name)}" for name in names]
        hint = "; rollstore.trl.reshard_checkpoint makes it fit" if "world_size" in names else ""
        return f"the run has changed: {'; '.join(changed)}{hint}"
    if saved.window is not None and saved.micro_step % saved.window.length and saved.window.unrestorable:
        return saved.window.unrestorable
    return None


def first_reason(reasons: Sequence[str | None]) -> str | None:
    """What keeps the ranks from restoring, all of them: one that cannot is enough. The same on every rank."""
    for rank, reason in enumerate(reasons):
        if reason is not None:
            return f"rank {rank}: {reason}"
    return None
