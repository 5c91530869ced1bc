"""Where the checkpoints of a service lie: a directory that all nodes see, or object storage."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from ._cut import Cut, Part, Where
from ._directory import Directory
from ._objects import Objects


class Place(Protocol):
    """Where cuts lie."""

    def check(self, service: str) -> None:
        """Raises where another service's checkpoint, or anything else, lies."""
        ...

    def begin(self, id: str) -> None:
        """Makes room for a cut."""
        ...

    def put(self, id: str, part: Part, staged: Path) -> tuple[int, int]:
        """Brings a part there, whole or not at all, from a directory of this node. Returns its number, and the bytes that were
        sent."""
        ...

    def publish(self, cut: Cut, staged: Path) -> Where:
        """Brings the coordinator's part there. From here on the cut is complete."""
        ...

    def end_others(self, cut: Cut, keep: int | None) -> list[list[int]]:
        """Ends older cuts. Returns for each shard the numbers of its parts that stay, where :meth:`end_parts` has to end others."""
        ...

    def end_parts(self, shard: int, numbers: list[int]) -> None:
        """Ends a shard's parts, but those of these numbers."""
        ...

    def complete(self, number: int | None) -> Cut:
        """The newest complete cut, or that of a number. Raises :class:`StoreNotFoundError` or :class:`NotFoundError` where there is
        none."""
        ...

    def check_there(self, cut: Cut) -> None:
        """Raises where the shards' parts of a cut, which is not published yet, are not there."""
        ...

    def check_whole(self, cut: Cut) -> None:
        """Raises where a part is missing or damaged, as far as can be seen without bringing it here."""
        ...

    def bring_back(self, cut: Cut, part: Part, path: Path) -> None:
        """Restores a part as a store on this node's disk."""
        ...


def at(root: str) -> Place:
    """The place that a root names: a URL is object storage."""
    return Objects(root) if "://" in root else Directory(root)
