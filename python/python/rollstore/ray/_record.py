"""What the coordinator keeps on disk: a store without rollouts, whose clocks, versions and labels are the service's.

The record is that store's cursor, so that it lies in one commit with each advance; the user's own cursor is part of it.
"""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple

from ._answers import View
from ._cut import Where
from ._versions import Versions

DONE_MAX = 1024
"""Operations that are remembered, so that one that is sent again is answered and not done again."""


class Record(NamedTuple):
    """All of it; every change makes a new one."""

    service: str
    shards: int
    turn: int = 0
    issued: Versions = Versions()
    """Every ref version of the lineage, numbered from 0."""
    moved: str | None = None
    """The operation whose commit issues a ref version: which one it cannot tell yet."""
    kl_moved: str | None = None
    """The same of the KL reference."""
    rewind: tuple[int, bool] | None = None
    """The last rewind."""
    rewinding: tuple[int, bool] | None = None
    """One that has begun, and is begun again after a kill."""
    updating: str | None = None
    """The weight update that is under way."""
    is_born: bool = False
    """Whether all shards had a store once."""
    checkpoint: Where | None = None
    """The last checkpoint."""
    cursor: bytes | None = None
    """The user's cursor."""
    done: dict[str, Any] = {}  # noqa: RUF012
    """What operations returned, by their numbers."""

    def settled(self, version: int, kl_version: int) -> Record:
        """With what its commit could not tell: after the commit, or, where a kill came between, at the opening."""
        record = self
        if record.moved is not None:
            issued = record.issued.pushed(version, (record.issued.own(record.issued.current) or 0) + 1)
            record = record.answered(record.moved, version)._replace(issued=issued, moved=None)
        if record.kl_moved is not None:
            record = record.answered(record.kl_moved, kl_version)._replace(kl_moved=None)
        return record

    def rewound(self, version: int) -> Record:
        """With a lineage that holds only this version."""
        return self._replace(turn=self.turn + 1, issued=Versions([[version, 0, 1]]), rewind=self.rewinding, rewinding=None)

    def answered(self, op: str, result: Any) -> Record:
        """With what an operation returned."""
        done = {**self.done, op: result}
        while len(done) > DONE_MAX:
            del done[next(iter(done))]
        return self._replace(done=done)

    def view(self, kl_version: int) -> View:
        return View(self.turn, self.issued.current, kl_version)

    def to_bytes(self) -> bytes:
        cursor = None if self.cursor is None else base64.b64encode(self.cursor).decode()
        return json.dumps({**self._asdict(), "issued": self.issued.runs, "cursor": cursor}).encode()

    @staticmethod
    def from_bytes(cursor: bytes) -> Record:
        told: dict[str, Any] = json.loads(cursor)
        for name in ("rewind", "rewinding"):
            told[name] = None if told[name] is None else tuple(told[name])
        told["cursor"] = None if told["cursor"] is None else base64.b64decode(told["cursor"])
        told["checkpoint"] = None if told["checkpoint"] is None else Where(*told["checkpoint"])
        told["issued"] = Versions(told["issued"])
        return Record(**told)
