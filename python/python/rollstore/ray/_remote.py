"""Where checkpoints of a service go: a directory that all nodes see, by its path or as ``file://``."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from .._store import RolloutStore
from ..errors import InvalidError


def place(root: str, *names: str) -> str:
    """A place below another."""
    return "/".join([root.rstrip("/"), *names])


def directory(root: str) -> Path:
    """The directory that a place stands for. Raises :class:`InvalidError` for a place of another kind."""
    path = root.removeprefix("file://")
    if "://" in path:
        raise InvalidError(f"{root} is no directory; a service's checkpoints go to one that all its nodes see")
    return Path(path)


def put(checkpoint: Path, target: str) -> None:
    """Brings a checkpoint of this node's disk to the target, whole or not at all. Files are linked where both lie on one file
    system; what is copied is synced."""
    final = directory(target)
    if final.exists():
        return  # sent again: it was brought there before
    part = final.with_name(final.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    final.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(checkpoint, part, copy_function=_link_or_copy)
    for folder, _, _ in os.walk(part):
        sync(Path(folder))
    part.rename(final)
    sync(final.parent)


def bring_back(target: str, path: Path) -> None:
    """Restores a store on this node's disk from a checkpoint at the target."""
    RolloutStore.restore(directory(target), path)


def sync(path: Path) -> None:
    """Makes a file, or the names in a directory, survive power loss."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK):
            raise
        shutil.copyfile(source, target)
        sync(Path(target))
