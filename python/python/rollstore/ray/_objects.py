"""Cuts in object storage: each part has checkpoints under a prefix of its own, and the coordinator's, put last, tells which of the
shards' belong to it.

Always true: a coordinator's checkpoint is there whole or not at all, and only once those that it tells of are there. It ends before they
do. Shards' checkpoints that none tells of are left-overs of a kill, which the next retention ends.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .. import _rollstore as native
from ..errors import DamagedError, InvalidError, NotFoundError
from ._cut import Cut, Part, Where, part_name
from ._errors import ShardUnavailableError

LOOKS = 16
"""Shards that are looked at side by side."""


class Objects:
    """A prefix with the cuts of one service."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/")

    def check(self, service: str) -> None:
        if self._root.startswith("memory:"):
            raise InvalidError(f"{self._root} is the memory of one process; give a place that all nodes see")
        try:
            cut = self.complete()
        except (NotFoundError, DamagedError):
            return  # a new checkpoint is what helps
        if cut.service != service:
            raise InvalidError(f"{self._root} holds checkpoints of another service; choose another prefix")

    def begin(self, id: str) -> None:
        """There is always room: each part gets the next number of its prefix."""

    def put(self, id: str, part: Part, staged: Path) -> tuple[int, int]:
        if not staged.exists():
            # Sent again, when only the answer was lost: which number it was nobody knows any more.
            raise ShardUnavailableError(f"the checkpoint {staged} is sent already; take another")
        return native.send_checkpoint(staged, self._url(part), "")

    def publish(self, cut: Cut, staged: Path) -> Where:
        number, _ = native.send_checkpoint(staged, self._url(None), json.dumps(cut.told()))
        return cut.where._replace(number=number)

    def end_others(self, cut: Cut, keep: int | None) -> list[list[int]]:
        if keep is None:
            return []
        kept = native.list_checkpoints(self._url(None))[-max(keep, 1) :]
        cuts = [self._read(number, annotation) for number, annotation in kept]
        native.retain_only(self._url(None), [number for number, _ in kept])
        return [[each.numbers[shard] for each in cuts if shard < each.shards] for shard in range(cut.shards)]

    def end_parts(self, shard: int, numbers: list[int]) -> None:
        native.retain_only(self._url(shard), numbers)

    def complete(self, number: int | None = None) -> Cut:
        return self._read(*native.find_checkpoint(self._url(None), number))

    def check_there(self, cut: Cut) -> None:
        try:
            self.check_whole(cut)
        except NotFoundError as error:
            message = f"a shard's part is not there ({error}); give a URL that is one place for all nodes"
            raise InvalidError(message) from None

    def check_whole(self, cut: Cut) -> None:
        """Bytes are compared when they are brought back."""
        with ThreadPoolExecutor(LOOKS) as threads:
            urls = [self._url(shard) for shard in range(cut.shards)]
            list(threads.map(native.find_checkpoint, urls, cut.numbers))

    def bring_back(self, cut: Cut, part: Part, path: Path) -> None:
        number = cut.where.number if part is None else cut.numbers[part]
        native.restore_from(self._url(part), path, number)

    def _read(self, number: int, annotation: str) -> Cut:
        try:
            cut = Cut(Where(self._root, number), **json.loads(annotation))
            if len(cut.numbers) == cut.shards:
                return cut
        except (ValueError, TypeError):
            pass
        raise InvalidError(f"checkpoint {number} under {self._url(None)} is none of a service; give another place")

    def _url(self, part: Part) -> str:
        return f"{self._root}/{part_name(part)}"
