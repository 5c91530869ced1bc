"""Cuts in a directory that all nodes see: one subdirectory each, and a manifest that names the one that counts.

Always true: the manifest is written last, and names a cut of which every byte is there. A cut without it is a left-over, which the
next one clears away.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import zlib
from pathlib import Path
from typing import Any

from .. import _rollstore as native
from .._store import RolloutStore
from ..errors import DamagedError, InvalidError, StoreNotFoundError
from ._cut import Cut, Part, Where, part_name

MANIFEST = "CUT.json"


class Directory:
    """A directory with the last cut of one service."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    def check(self, service: str) -> None:
        root = self._root
        if (root / MANIFEST).exists():
            if self.complete().service != service:
                raise InvalidError(f"{root} holds a checkpoint of another service; give another place", path=root)
        elif root.is_dir() and any(not name.startswith(("cut-", MANIFEST)) for name in os.listdir(root)):
            raise InvalidError(f"{root} is no checkpoint of a service; give an empty place", path=root)

    def begin(self, id: str) -> None:
        self._root.mkdir(parents=True, exist_ok=True)
        self._clear({id, self._counts()})

    def put(self, id: str, part: Part, staged: Path) -> tuple[int, int]:
        """Files are linked where both lie on one file system; what is copied is synced."""
        final = self._part(id, part)
        if not final.exists():  # else this was sent again
            unfinished = final.with_name(final.name + ".part")
            shutil.rmtree(unfinished, ignore_errors=True)
            final.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(staged, unfinished, copy_function=_link_or_copy)
            for folder, _, _ in os.walk(unfinished):
                sync(Path(folder))
            unfinished.rename(final)
            sync(final.parent)
        return 0, 0

    def publish(self, cut: Cut, staged: Path) -> Where:
        self.put(cut.id, None, staged)
        body = cut.told()
        part = self._root / f"{MANIFEST}.part"
        part.write_text(json.dumps({**body, "checksum": _checksum(body)}, indent=1))
        sync(part)
        part.rename(self._root / MANIFEST)
        sync(self._root)
        return cut.where

    def end_others(self, cut: Cut, keep: int | None) -> list[list[int]]:
        self._clear({cut.id})
        return []

    def end_parts(self, shard: int, numbers: list[int]) -> None:
        """They ended with their cuts."""

    def complete(self, number: int | None = None) -> Cut:
        path = self._root / MANIFEST
        try:
            told: dict[str, Any] = json.loads(path.read_bytes())
            found = told.pop("checksum")
            computed = _checksum(told)
            if found != computed:
                raise DamagedError(f"the checkpoint's manifest {path} has checksum {found}, computed {computed}", path=path)
            return Cut(Where(str(self._root), None), **told)
        except FileNotFoundError:
            message = f"there is no complete checkpoint of a service at {self._root}"
            raise StoreNotFoundError(message, path=self._root) from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DamagedError(f"the checkpoint's manifest {path} is no manifest: {error}", path=path) from None

    def check_there(self, cut: Cut) -> None:
        for shard in range(cut.shards):
            place = self._part(cut.id, shard)
            if not place.is_dir():
                message = f"shard {shard} put its part at {place} of its own node; give a path or URL that all nodes see"
                raise InvalidError(message, path=place)

    def check_whole(self, cut: Cut) -> None:
        for part in (None, *range(cut.shards)):
            place = self._part(cut.id, part)
            if not native.verify(place)[0]:
                raise DamagedError(f"the checkpoint {place} is damaged; run 'rollstore verify' for the extent", path=place)

    def bring_back(self, cut: Cut, part: Part, path: Path) -> None:
        RolloutStore.restore(self._part(cut.id, part), path)

    def _part(self, id: str, part: Part) -> Path:
        return self._root / id / part_name(part)

    def _counts(self) -> str | None:
        try:
            return self.complete().id
        except (StoreNotFoundError, DamagedError):
            return None

    def _clear(self, kept: set[str | None]) -> None:
        for path in self._root.glob("cut-*"):
            if path.name not in kept:
                shutil.rmtree(path)


def sync(path: Path) -> None:
    """Makes a file, or the names in a directory, survive power loss."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _checksum(body: dict[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(body, sort_keys=True).encode()):08x}"


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK):
            raise
        shutil.copyfile(source, target)
        sync(Path(target))
