"""The section `Rollstore` of TransferQueue's configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ..errors import InvalidError


class Address:
    """Where the owner is found. It lies in the configuration that TransferQueue's controller hands to every process, and whoever
    reads it imports this package: that is how the backend is registered everywhere.
    """

    def __init__(self, name: str, namespace: str) -> None:
        self.name = name
        self.namespace = namespace

    def __repr__(self) -> str:
        return f"<owner {self.name!r} in {self.namespace!r}>"


@dataclass(frozen=True)
class Settings:
    """How the store is kept and called. Checked where it is made: an unknown name or a value that does not fit is refused."""

    path: str
    """The store's directory, on the machine that calls ``transfer_queue.init`` first. Absolute."""
    durability: str = "synced"
    """``"synced"``: a put that returned survives power loss. ``"buffered"``: a killed process; power loss may cost the newest."""
    recover: bool = True
    """Whether what an earlier run left is handed to the controller again; else it is retired."""
    call_bytes: int = 64 << 20
    """The most that a call to the owner carries, in bytes, where its samples can be divided: larger puts are several commits, larger
    gets several replies."""
    calls: int = 2
    """The most calls of one client that the owner has at once; the next waits."""
    quota_bytes: int | None = None
    """The most that the store's files may take together, in bytes."""
    owner_cpus: float = 0.0
    """Cores that Ray reserves for the owner, which mostly waits for its disk."""
    owner: Address | None = None
    """Who owns the store; without one the client opens it itself."""

    def __post_init__(self) -> None:
        if not self.path or not os.path.isabs(self.path):
            raise InvalidError(f"path is {self.path!r}, it must be an absolute path: processes differ in their working directory")
        if self.durability not in ("synced", "buffered"):
            raise InvalidError(f"durability is {self.durability!r}, it must be 'synced' or 'buffered'")
        if type(self.recover) is not bool:
            raise InvalidError(f"recover is {self.recover!r}, it must be true or false")
        for name in ("call_bytes", "calls"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise InvalidError(f"{name} is {value!r}, it must be a whole number above 0")


def settings_of(config: Mapping[str, Any] | None) -> Settings:
    """The settings of a section, in which TransferQueue's manager may have named its client, too."""
    given = {name: value for name, value in dict(config or {}).items() if name != "client_name"}
    known = [field.name for field in fields(Settings)]
    for name in given:
        if name not in known:
            raise InvalidError(f"backend.Rollstore has no setting {name!r}; there are {', '.join(known[:-1])}")
    if given.get("path") is None:
        raise InvalidError("backend.Rollstore.path is missing: the directory of the store")
    return Settings(**given)
