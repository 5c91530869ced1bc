"""Sweeps of a shard whose closure is at a client: the store's own sweep runs on a thread here and waits for results there."""

from __future__ import annotations

import queue
import threading
from typing import Any

from .. import _rollstore as native
from ..errors import Error
from ._keeping import Keeping
from ._planned import Planned

SILENCE_MAX = 3600.0
"""Seconds that a micro-batch may take; its client is taken for gone then."""


class Stopped(Exception):
    """The client's function raised, or the client is gone."""


class _Talk:
    """One sweep under way: plans go out, results come in."""

    def __init__(self) -> None:
        self.out: queue.Queue[Any] = queue.Queue()
        self.results: queue.Queue[Any] = queue.Queue()


class Sweeping:
    """The sweeps under way."""

    def __init__(self, planned: Planned) -> None:
        self._planned = planned
        self._talks: dict[str, _Talk] = {}

    def begin(self, token: str, keeping: Keeping, args: tuple[Any, ...]) -> tuple[str, Any]:
        """Begins a call of the store's sweep. Returns ``("plan", ...)``, or ``("done", ...)`` where nothing was to be computed."""
        talk = self._talks[token] = _Talk()

        def compute(plan: native.Plan) -> Any:
            talk.out.put(("plan", self._planned.keep(plan, keeping.ledger)))
            try:
                results = talk.results.get(timeout=SILENCE_MAX)
            except queue.Empty:
                raise Stopped from None
            if results is None:
                raise Stopped
            return results

        def run() -> None:
            try:
                store: Any = keeping.store._store
                done = store.sweep(*args, compute)
                keeping.make_durable()
                talk.out.put(("done", done))
            except Stopped:
                talk.out.put(("stopped", None))
            except Error as error:
                talk.out.put(("error", error))

        threading.Thread(target=run, name="sweep", daemon=True).start()
        return self._next(token, talk)

    def go_on(self, token: str, results: Any) -> tuple[str, Any]:
        """Gives the results of the plan that came last; ``None`` where the function raised.

        ``("gone", None)`` after a restart of the actor: the sweep is begun again, and goes on where it was.
        """
        talk = self._talks.get(token)
        if talk is None:
            return "gone", None
        talk.results.put(results)
        return self._next(token, talk)

    def _next(self, token: str, talk: _Talk) -> tuple[str, Any]:
        kind, value = talk.out.get()
        if kind != "plan":
            self._talks.pop(token, None)
        if kind == "error":
            raise value
        return kind, value
