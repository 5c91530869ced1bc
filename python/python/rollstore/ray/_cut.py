"""A checkpoint of all shards: it is put together part by part, and counts from one last step on, when every byte of it is there."""

from __future__ import annotations

from typing import Any, NamedTuple

Part = int | None
"""What a cut is made of: a checkpoint of each shard, by its number, and ``None``, the coordinator's."""


def part_name(part: Part) -> str:
    """What it is called where it lies."""
    return "coordinator" if part is None else f"shard-{part}"


class Where(NamedTuple):
    """Which cut: what is written down of it, to find it again."""

    root: str
    number: int | None
    """The coordinator's checkpoint in object storage; a directory holds one cut."""


class Cut(NamedTuple):
    """A complete cut."""

    where: Where
    id: str
    service: str
    shards: int
    version: int
    """The ref version that it is of."""
    numbers: list[int]
    """In object storage: the number of each shard's checkpoint."""

    def told(self) -> dict[str, Any]:
        """What is written into it."""
        return {name: value for name, value in self._asdict().items() if name != "where"}
