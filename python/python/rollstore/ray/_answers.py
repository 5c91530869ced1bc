"""What client, coordinator and shards say to each other."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from ._cut import Where


class View(NamedTuple):
    """The service's state that a call was made under. A shard answers only calls of the state that it is at itself."""

    turn: int
    """Rewinds and restores so far."""
    version: int
    """The ref version, as the service counts it."""
    kl_version: int
    """The version of the KL reference."""


class Refused(NamedTuple):
    """A shard's answer to a call that it did not begin: the client tries again."""

    why: Literal["unjoined", "behind", "ahead", "held"]
    """``"unjoined"``: it has just started. ``"behind"``, ``"ahead"``: it is at another state than the call. ``"held"``: a
    checkpoint is being cut, for some milliseconds."""


class OpId(NamedTuple):
    """A write's number: the same for all its parts, and for each time that it is sent."""

    client: str
    number: int
    floor: int
    """Writes of this client below it have their answers: nobody will send them again."""
    shards: tuple[int, ...]
    """Those that take part in it."""


class Done(NamedTuple):
    """What a shard did for a write."""

    lsn: int
    retired: int
    applied: list[tuple[int, int, int]]


class Join(NamedTuple):
    """What the coordinator tells a shard that it shall be at."""

    service: str
    view: View
    issued: list[list[int]]
    """Every ref version since the last rewind, as the runs of :class:`Versions`."""
    clock: int | None
    rewind: tuple[int, bool] | None
    """Step and whether later rollouts are kept, of the last rewind."""
    is_born: bool
    """Whether the shard had a store before: an empty disk is a loss then."""
    checkpoint: Where | None
    """The last checkpoint of the service."""


class Config(NamedTuple):
    """How a service was opened; actors that restart find it again in their arguments."""

    name: str
    path: str
    shards: int
    options: dict[str, Any]
    """Of :meth:`RolloutStore.open`."""
    restore: Where | None
    """A checkpoint that all shards begin with."""
    opening: str
    """A number of this opening: a restart of an actor does not restore the checkpoint once more."""
    lease: float
    """Seconds after which a weight update whose client is silent counts as ended."""


NAMESPACE = "rollstore"
"""Ray's namespace of all services."""


def shard_name(service: str, shard: int) -> str:
    """The actor's name."""
    return f"{service}/shard-{shard}"
