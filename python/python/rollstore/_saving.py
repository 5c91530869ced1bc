"""Saving and going back: checkpoints, restores, rewinds."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any, Literal

from . import _rollstore as native
from ._opened import Opened, number_of, step_of
from .errors import InvalidError


class Saving(Opened):
    """Checkpoints, and ways back."""

    def checkpoint(self, path: str | os.PathLike[str], *, keep: int | None = None) -> int:
        """Writes a checkpoint: everything committed until now, in a directory of its own. Files are linked where the file system
        can. Returns the bytes that were copied, 0 where all are links. One of the same run at the path is replaced in one step.

        A URL (``s3://bucket/run/shard-0``, ``gs://``, ``az://``, ``file://``) takes a checkpoint beside those that are under it.
        Only files that are not there are sent; returns their bytes. ``keep`` ends all but the last so many, and warns where that
        fails: the checkpoint is there all the same. Credentials come from the environment. A prefix is of one run: each shard has
        its own."""
        url = url_of(path)
        if url is None:
            only_under_a_url("keep", keep)
            return self._store.checkpoint(path)
        sent, failed = self._store.checkpoint_to(url, number_of(keep, "keep"))
        if failed is not None:
            warnings.warn(f"older checkpoints were not ended: {failed}", stacklevel=2)
        return sent

    @staticmethod
    def restore(checkpoint: str | os.PathLike[str], path: str | os.PathLike[str], *, number: int | None = None) -> None:
        """Brings a checkpoint back into a directory: a fresh one, or a store of the same run, whose state since then is abandoned.
        What was fresh at the checkpoint is fresh again. The store must not be open. Of a URL it is the newest checkpoint, or the one
        of a number."""
        url = url_of(checkpoint)
        if url is None:
            only_under_a_url("number", number)
            native.restore(checkpoint, path)
        else:
            native.restore_from(url, path, number_of(number, "number"))

    def rewind(self, step: int, *, created_later: Literal["keep", "drop"]) -> int:
        """Sets the clock back to ``step`` without a checkpoint: everything that stays is stale, at any lag. ``"drop"`` retires what
        was created after the step. Returns the new ref version. A step above the clock is refused."""
        if created_later not in ("keep", "drop"):
            raise InvalidError(f"created_later is {created_later!r}, it must be 'keep' or 'drop'")
        return self._store.rewind(step_of(step), created_later == "keep")

    def state_dict(self) -> dict[str, Any]:
        """Where the store stands, for a trainer's own checkpoint: path, clock, versions, last LSN, cursor. It holds no rollouts."""
        stats, _ = self._store.stats()
        return {
            "path": self.path,
            "clock": self.clock,
            "ref_version": stats["ref_version"],
            "kl_ref_version": stats["kl_ref_version"],
            "last_lsn": stats["last_lsn"],
            "cursor": self.cursor,
        }

    def load_state_dict(
        self, state: Mapping[str, Any], *, created_later: Literal["error", "keep", "drop"] = "error"
    ) -> None:
        """Makes sure that the store stands where ``state`` says, as a trainer does that resumes from its checkpoint.

        A store that went on since then is refused, since its log-probs are of weights that will not come again; or, with
        ``"keep"`` or ``"drop"``, rewound to the state's step: see :meth:`rewind`. A store that lacks commits of the state is
        always refused.
        """
        stats, _ = self._store.stats()
        here, there = stats["last_lsn"], int(state["last_lsn"])
        if here < there:
            raise InvalidError(f"the store ends at LSN {here}, the state is of LSN {there}; restore its checkpoint")
        clock = state["clock"]
        if self.clock == clock and stats["ref_version"] == state["ref_version"]:
            return
        if created_later == "error" or clock is None:
            raise InvalidError(
                f"the store is at step {self.clock} and version {stats['ref_version']}, the state at step {clock} and version "
                f"{state['ref_version']}; restore a checkpoint, or load with created_later='keep' or 'drop'"
            )
        self.rewind(int(clock), created_later=created_later)


def url_of(path: str | os.PathLike[str]) -> str | None:
    """The URL that a string is; a path, even one with ``://`` in it, is none."""
    return path if isinstance(path, str) and "://" in path else None


def only_under_a_url(name: str, given: int | None) -> None:
    if given is not None:
        raise InvalidError(f"{name} is for checkpoints under a URL; a directory is one checkpoint")
