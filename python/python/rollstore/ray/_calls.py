"""A client's calls: to all shards that one concerns side by side, under one view of the service, again where they were refused."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .._shards import shards_of
from ..errors import Error
from ._answers import NAMESPACE, Done, OpId, Refused, View, shard_name
from ._cluster import exceptions, ray
from ._errors import ShardUnavailableError
from ._pressure import Pressure

Places = npt.NDArray[np.intp]
"""Rows of the caller's arrays."""

PAUSE = 0.005
"""Seconds before a call is sent again that a cut held off; a cut takes milliseconds."""


class Calls:
    """The actors of a service, as one client sees them."""

    def __init__(self, name: str, shards: int, pressure: Pressure, timeout: float) -> None:
        self.name, self.shards, self.timeout = name, shards, timeout
        self.pressure = pressure
        self._coordinator: Any = ray.get_actor(name, NAMESPACE)
        self._shards: list[Any] = [ray.get_actor(shard_name(name, shard), NAMESPACE) for shard in range(shards)]
        self._client = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._next = 0
        self._open: set[int] = set()
        self._view: View | None = None

    @property
    def actors(self) -> list[Any]:
        """Every actor of the service."""
        return [self._coordinator, *self._shards]

    @property
    def view(self) -> View:
        """Where the service stands, as far as this client has heard."""
        return self._view or self.look()

    def look(self, *, settle: bool = False, wait_for_update: bool = False) -> View:
        """Asks the coordinator where the service stands."""
        while True:
            self._view, is_updating = self.coordinator("view", settle=settle, wait_for_update=wait_for_update)
            if not is_updating:
                return self.view

    def coordinator(self, method: str, *args: Any, **options: Any) -> Any:
        """A call of the coordinator."""
        end = time.monotonic() + self.timeout
        while True:
            ref = getattr(self._coordinator, method).remote(*args, **options)
            given = self._got([ref], end, "the coordinator")[0]
            if not isinstance(given, ShardUnavailableError):
                break
            self._pause(end, given)
        if isinstance(given, Exception):
            raise given
        return given

    def operate(self, name: str, *args: Any) -> Any:
        """An operation of the coordinator, done once however often it is sent."""
        return self.coordinator("operate", f"{self._client}.{secrets.token_hex(8)}", name, args)

    def split(self, ids: npt.NDArray[np.uint64]) -> dict[int, Places]:
        """The rows of each shard that has any."""
        if self.shards == 1:
            return {0: np.arange(len(ids))}
        owner = shards_of(ids, self.shards)
        return {int(shard): np.flatnonzero(owner == shard) for shard in np.unique(owner)}

    def read(self, name: str, args: Mapping[int, tuple[Any, ...]], rows: Mapping[int, Places] | None = None) -> dict[int, Any]:
        """Asks shards, all under one view: where one refuses, all are asked again."""
        if not args:
            return {}
        end = time.monotonic() + self.timeout
        while True:
            view = self.view
            with self.pressure.room(len(args), 0):
                refs = {shard: self._shards[shard].read.remote(view, name, given) for shard, given in args.items()}
                answers = self._answers(refs, end)
            if not self._again(list(answers.values()), end):
                return _checked(answers, rows)

    def read_all(self, name: str, *args: Any) -> list[Any]:
        """Asks every shard the same."""
        return list(self.read(name, dict.fromkeys(range(self.shards), args)).values())

    def write(
        self, parts: Mapping[int, Callable[[], list[tuple[Any, ...]]]], rows: Mapping[int, Places] | None, size: int
    ) -> dict[int, Done]:
        """Does a write, on each shard its part, which is made when it is sent. Only parts that were refused are sent again; none is
        done twice."""
        if not parts:
            return {}
        end, left, answers = time.monotonic() + self.timeout, dict(parts), dict[int, Any]()
        op = self._begin(tuple(parts))
        try:
            with self.pressure.room(len(parts), size):
                while left:
                    view = self.view
                    refs = {shard: self._shards[shard].write.remote(view, op, made()) for shard, made in left.items()}
                    answers.update(self._answers(refs, end))
                    again = self._again(list(answers.values()), end)
                    left = {shard: made for shard, made in left.items() if again and _is_refused(answers[shard])}
            return _checked(answers, rows)
        except Error as error:
            error.__dict__["parts_done"] = [shard for shard, given in answers.items() if isinstance(given, Done)]
            raise
        finally:
            self._end(op)

    def control(self, name: str, *args: Any) -> list[Any]:
        """A call of every shard's store that concerns no version."""
        return self.each("control", *[(name, *args)] * self.shards)

    def each(self, method: str, *args: tuple[Any, ...]) -> list[Any]:
        """A call of every shard with arguments of its own."""
        end = time.monotonic() + self.timeout
        while True:
            refs = {shard: getattr(self._shards[shard], method).remote(*given) for shard, given in enumerate(args)}
            answers = self._answers(refs, end)
            if not self._again(list(answers.values()), end):
                return list(_checked(answers, None).values())

    def one(self, shard: int, method: str, *args: Any) -> Any:
        """A call of one shard, under the client's view where ``view`` stands among the arguments."""
        end = time.monotonic() + self.timeout
        while True:
            given = [self.view if arg is View else arg for arg in args]
            answers = self._answers({shard: getattr(self._shards[shard], method).remote(*given)}, end)
            if not self._again(list(answers.values()), end):
                return _checked(answers, None)[shard]

    def _begin(self, shards: tuple[int, ...]) -> OpId:
        with self._lock:
            number = self._next
            self._next += 1
            self._open.add(number)
            return OpId(self._client, number, min(self._open), shards)

    def _end(self, op: OpId) -> None:
        with self._lock:
            self._open.discard(op.number)

    def _answers(self, refs: dict[int, Any], end: float) -> dict[int, Any]:
        who = "shards " + ", ".join(str(shard) for shard in refs)
        return dict(zip(refs, self._got(list(refs.values()), end, who), strict=True))

    def _got(self, refs: list[Any], end: float, who: str) -> list[Any]:
        try:
            return ray.get(refs, timeout=max(0.0, end - time.monotonic()))
        except exceptions.GetTimeoutError:
            raise ShardUnavailableError(
                f"{who} of service {self.name} did not answer within {self.timeout:g} s; look at the nodes, then call again"
            ) from None
        except exceptions.RayActorError as error:
            message = f"{who} of service {self.name} are gone for good: {error}; open the service again"
            raise ShardUnavailableError(message) from None

    def _again(self, answers: list[Any], end: float) -> bool:
        """Whether any of these was refused. The client knows where the service stands, then."""
        refused = [given for given in answers if _is_refused(given)]
        if not refused:
            return False
        if time.monotonic() > end:
            raise ShardUnavailableError(f"service {self.name} did not come to rest within {self.timeout:g} s; call again")
        if all(isinstance(given, Refused) and given.why == "held" for given in refused):
            time.sleep(PAUSE)
        else:
            self.look(settle=True)
        return True

    def _pause(self, end: float, error: Error) -> None:
        if time.monotonic() > end:
            raise error
        time.sleep(PAUSE)


def _is_refused(given: Any) -> bool:
    return isinstance(given, (Refused, ShardUnavailableError))


def _checked(answers: dict[int, Any], rows: Mapping[int, Places] | None) -> dict[int, Any]:
    """The answers, or the error of the first row that has one: rows are told as the caller counts them."""
    errors: list[Exception] = []
    for shard, given in answers.items():
        if isinstance(given, Error) and given.row is not None and rows is not None and shard in rows:
            given.row = int(rows[shard][given.row])
        if isinstance(given, Exception):
            errors.append(given)
    if errors:
        raise min(errors, key=lambda error: getattr(error, "row", None) or 0)
    return answers
