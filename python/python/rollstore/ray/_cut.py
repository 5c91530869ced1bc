"""A checkpoint of all shards: one directory for each cut, and a manifest that names the one that counts.

Always true: the manifest is written last, and names a cut of which every byte is there. A cut without it is a left-over, which the
next one clears away.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from .. import _rollstore as native
from ..errors import DamagedError, InvalidError, StoreNotFoundError
from . import _remote

MANIFEST = "CUT.json"


class Cut(NamedTuple):
    """One cut."""

    root: str
    """Where the user asked for it."""
    id: str

    @staticmethod
    def new(root: str) -> Cut:
        """One that was never taken before."""
        return Cut(root, f"cut-{secrets.token_hex(8)}")

    def shard(self, shard: int) -> str:
        """Where a shard's checkpoint lies."""
        return _remote.place(self.root, self.id, f"shard-{shard}")

    @property
    def coordinator(self) -> str:
        """Where the coordinator's checkpoint lies."""
        return _remote.place(self.root, self.id, "coordinator")

    def publish(self, told: dict[str, Any]) -> None:
        """Makes this the cut that counts: from here on it is complete."""
        body = {"cut": self.id, **told}
        whole = json.dumps({**body, "checksum": _checksum(body)}, indent=1)
        root = _remote.directory(self.root)
        part = root / f"{MANIFEST}.part"
        part.write_text(whole)
        _remote.sync(part)
        part.rename(root / MANIFEST)
        _remote.sync(root)

    def clear_others(self) -> None:
        """Removes every cut at the root but this one and the one that counts."""
        root = _remote.directory(self.root)
        root.mkdir(parents=True, exist_ok=True)
        counts = _named(root)
        for path in root.glob("cut-*"):
            if path.name not in (self.id, counts):
                shutil.rmtree(path)


def complete(root: str | os.PathLike[str]) -> tuple[Cut, dict[str, Any]]:
    """The complete cut at a root, and what its manifest tells."""
    where = os.fspath(root)
    path = _remote.directory(where) / MANIFEST
    try:
        told = json.loads(path.read_bytes())
        found = told.pop("checksum")
    except FileNotFoundError:
        raise StoreNotFoundError(f"there is no complete checkpoint of a service at {where}", path=where) from None
    except (ValueError, KeyError, AttributeError) as error:
        raise DamagedError(f"the checkpoint's manifest {path} is no manifest: {error}", path=path) from None
    if found != _checksum(told):
        raise DamagedError(f"the checkpoint's manifest {path} has checksum {found}, computed {_checksum(told)}", path=path)
    return Cut(where, told["cut"]), told


def check_root(root: str, service: str) -> None:
    """Raises where another service's checkpoint, or anything else, lies at the root."""
    path = _remote.directory(root)
    if (path / MANIFEST).exists():
        other = complete(root)[1]["service"]
        if other != service:
            raise InvalidError(f"{root} holds a checkpoint of another service; give another place", path=root)
    elif path.is_dir() and any(not name.startswith(("cut-", MANIFEST)) for name in os.listdir(path)):
        raise InvalidError(f"{root} is no checkpoint of a service; give an empty place", path=root)


def verify(cut: Cut, shards: int) -> None:
    """Raises where any part of a cut is damaged or missing."""
    for place in (cut.coordinator, *(cut.shard(shard) for shard in range(shards))):
        if not native.verify(_remote.directory(place))[0]:
            raise DamagedError(f"the checkpoint {place} is damaged; run 'rollstore verify' for the extent", path=place)


def _named(root: Path) -> str | None:
    try:
        return complete(str(root))[0].id
    except (StoreNotFoundError, DamagedError):
        return None


def _checksum(body: dict[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(body, sort_keys=True).encode()):08x}"
