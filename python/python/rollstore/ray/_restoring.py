"""Bringing a whole service back from a checkpoint: all shards of one cut, or, after a kill, all of them again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import InvalidError
from . import _cut, _remote
from ._answers import Config
from ._cluster import ray


def restore_all(config: Config, coordinator: Path, restore_shard: Callable[[int, str], Any]) -> None:
    """Restores every store where the service was opened for that, or where a kill cut a restore.

    A marker beside the coordinator's store says that one has begun, and goes when it is done: nothing is served in between.
    """
    begun = coordinator.with_name("restoring.json")
    done = coordinator.with_name("restored.json")
    if not begun.exists():
        if config.restore is None or _told(done) == _wish(config):
            return
        _note(begun, _wish(config))
    wish = _told(begun)
    cut, told = _cut.complete(wish["checkpoint"])
    if told["shards"] != config.shards:
        begun.unlink()
        raise InvalidError(
            f"the checkpoint {cut.root} is of {told['shards']} shards, the service has {config.shards}; run 'rollstore reshard' "
            "for another number"
        )
    answers: list[Any] = ray.get([restore_shard(shard, cut.shard(shard)) for shard in range(config.shards)])
    for given in answers:
        if isinstance(given, Exception):
            raise given
    _remote.bring_back(cut.coordinator, coordinator)
    _note(done, wish)
    begun.unlink()
    _remote.sync(begun.parent)


def _wish(config: Config) -> dict[str, Any]:
    """What is asked for: a checkpoint, and by which opening, so that a restart of the actor does not restore it once more."""
    return {"checkpoint": config.restore, "opening": config.opening}


def _told(path: Path) -> dict[str, Any]:
    return json.loads(path.read_bytes()) if path.exists() else {}


def _note(path: Path, wish: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(wish))
    _remote.sync(part)
    part.rename(path)
    _remote.sync(path.parent)
