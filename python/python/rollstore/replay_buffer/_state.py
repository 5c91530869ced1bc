"""What a buffer knows beside its rollouts. It lies in the store's cursor, and so changes with them or not at all."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import InvalidError

FORMAT = 1


@dataclass(frozen=True)
class State:
    """Where a buffer stands."""

    step: int = 0
    """The policy's version."""
    cursor: bytes | None = None
    """The caller's own."""
    dropped: dict[str, int] = field(default_factory=dict[str, int])
    """How many rollouts were dropped, by reason."""
    draws: int = 0
    """How often was drawn: what the next draw is seeded with."""

    @classmethod
    def from_bytes(cls, stored: bytes | None) -> State:
        """The state of a store's cursor; a new one where there is none."""
        if stored is None:
            return cls()
        state: dict[str, Any] = json.loads(stored)
        if state.get("format") != FORMAT:
            raise InvalidError(f"the store's cursor is not of a replay buffer of format {FORMAT}")
        cursor = state["cursor"]
        return cls(state["step"], None if cursor is None else base64.b64decode(cursor), state["dropped"], state["draws"])

    def to_bytes(self) -> bytes:
        cursor = None if self.cursor is None else base64.b64encode(self.cursor).decode()
        state = {"format": FORMAT, "step": self.step, "cursor": cursor, "dropped": self.dropped, "draws": self.draws}
        return json.dumps(state).encode()

    def after(self, *, cursor: bytes | None = None, dropped: dict[str, int] | None = None, step: int | None = None) -> State:
        """The state behind a call that was given a cursor, dropped so many, and came to a step."""
        counts = self.dropped | {why: self.dropped.get(why, 0) + count for why, count in (dropped or {}).items() if count}
        return replace(
            self,
            cursor=self.cursor if cursor is None else bytes(cursor),
            dropped=counts,
            step=self.step if step is None else step,
        )
