"""Bringing a whole service back from a checkpoint: all shards of one cut, or, after a kill, all of them again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import DamagedError, InvalidError
from ._answers import Config
from ._cluster import ray
from ._cut import Cut, Where
from ._directory import sync
from ._keeping import opened
from ._place import at
from ._record import Record


def restore_all(config: Config, coordinator: Path, restore_shard: Callable[[int, Where], Any]) -> None:
    """Restores every store where the service was opened for that, or where a kill cut a restore.

    A marker beside the coordinator's store says that one has begun, and goes when it is done: nothing is served in between.
    """
    begun = coordinator.with_name("restoring.json")
    done = coordinator.with_name("restored.json")
    if config.restore is not None and _told(done) != _wish(config):
        # What cannot be done is refused before anything is noted: it must not happen at a later opening.
        at(config.restore.root).check_whole(_found(config, config.restore))
        # Also in place of one that was cut, and cannot come to its end.
        _note(begun, _wish(config))
    if not begun.exists():
        return
    wish = _told(begun)
    cut = _found(config, Where(wish["checkpoint"], wish["number"]))
    place = at(cut.where.root)
    answers: list[Any] = ray.get([restore_shard(shard, cut.where) for shard in range(config.shards)])
    for given in answers:
        if isinstance(given, Exception):
            raise given
    place.bring_back(cut, None, coordinator)
    with opened(coordinator, config.options) as store:
        cursor = store.cursor
        if cursor is None:
            raise DamagedError(f"the coordinator's part of {cut.where.root} has no record; restore another checkpoint")
        # It was taken before it was the last one.
        store.set_cursor(Record.from_bytes(cursor)._replace(checkpoint=cut.where).to_bytes())
    _note(done, wish)
    begun.unlink()
    sync(begun.parent)


def _found(config: Config, where: Where) -> Cut:
    """The cut, which must be of as many shards as the service has."""
    cut = at(where.root).complete(where.number)
    if cut.shards != config.shards:
        raise InvalidError(
            f"the checkpoint {where.root} is of {cut.shards} shards, the service has {config.shards}; run 'rollstore reshard' "
            "for another number"
        )
    return cut


def _wish(config: Config) -> dict[str, Any]:
    """What is asked for: a checkpoint, and by which opening, so that a restart of the actor does not restore it once more."""
    root, number = config.restore or (None, None)
    return {"checkpoint": root, "number": number, "opening": config.opening}


def _told(path: Path) -> dict[str, Any]:
    return json.loads(path.read_bytes()) if path.exists() else {}


def _note(path: Path, wish: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(wish))
    sync(part)
    part.rename(path)
    sync(path.parent)
