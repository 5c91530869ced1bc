"""Upkeep: space, checks, durability, figures."""

from __future__ import annotations

import os

from . import _rollstore as native
from ._opened import Opened, number_of, step_of
from ._results import Compacted, Finding, Verification


class Upkeep(Opened):
    """Space, checks, durability, figures."""

    def compact(self, max_bytes: int | None = None) -> Compacted:
        """Gives space back: drops files in which nothing is alive, and copies what lives out of others, about ``max_bytes`` of it
        at most. Views stay valid."""
        return Compacted(*self._store.compact(number_of(max_bytes, "max_bytes")))

    def verify(self) -> Verification:
        """Checks every byte on disk. Writes nothing."""
        return _verification(self._store.verify())

    def sync(self) -> None:
        """Returns when everything committed until now survives power loss; at once in a synced store."""
        self._store.sync()

    def wait_durable(self, lsn: int) -> None:
        """Returns when the commit of this LSN survives power loss."""
        self._store.wait_durable(step_of(lsn, "lsn"))

    @property
    def durable_lsn(self) -> int:
        """The highest LSN known to be on disk."""
        return self._store.durable_lsn()

    def stats(self, prefix: str = "") -> dict[str, int]:
        """Figures of the store as a flat dict, ready for wandb or TensorBoard: ``wandb.log(store.stats("rollstore/"))``."""
        stats, warnings = self._store.stats()
        stats["warnings"] = len(warnings)
        return {prefix + name: number for name, number in stats.items()}

    def warnings(self) -> list[str]:
        """What a person should look at, in plain words, since the store was opened."""
        return self._store.stats()[1]


def verify(path: str | os.PathLike[str]) -> Verification:
    """Checks every byte of the store or checkpoint in a directory, and goes on past damage. Writes nothing, takes no lock."""
    return _verification(native.verify(path))


def _verification(seen: native.Verified) -> Verification:
    is_sound, is_checkpoint, segments, frames, size, found = seen
    findings = [Finding(os.fspath(finding[0]), *finding[1:]) for finding in found]
    return Verification(is_sound, is_checkpoint, segments, frames, size, findings)
