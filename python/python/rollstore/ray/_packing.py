"""Rollouts on their way to a client: all their columns in one buffer, which Ray's object store takes over as it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import _rollstore as native
from .._arrays import View, bfloat16
from ..errors import NotFoundError
from ._ledger import Ledger

ALIGN = 64
"""Bytes at whose multiples each column begins: those of a cache line."""

Place = tuple[str, int, int]
"""A column's type, and where its bytes begin and end."""


class Packed(NamedTuple):
    """Rollouts, without the store that they lie in."""

    rows: list[dict[str, Any] | None]
    """What each is, and where its columns lie; ``None`` for one that is not live."""
    values: npt.NDArray[np.uint8]
    """The bytes of all columns. One array: thousands of small ones would cost more than what is in them."""


class _Packing:
    """The buffer as it grows."""

    def __init__(self) -> None:
        self._pieces: list[npt.NDArray[np.uint8]] = []
        self._end = 0

    def add(self, dtype: str, array: npt.NDArray[Any]) -> Place:
        begin, size = self._end, array.nbytes
        gap = -size % ALIGN
        self._pieces += [array.reshape(-1).view(np.uint8), np.zeros(gap, np.uint8)] if size else []
        self._end += size + gap if size else 0
        return dtype, begin, begin + size

    def joined(self) -> npt.NDArray[np.uint8]:
        return np.concatenate(self._pieces) if self._pieces else np.empty(0, np.uint8)


def pack(rollouts: Iterable[native.Rollout | None], ledger: Ledger) -> Packed:
    """Rollouts as a client gets them."""
    packing = _Packing()
    rows = [None if rollout is None else _row(rollout, ledger, packing) for rollout in rollouts]
    return Packed(rows, packing.joined())


def _row(rollout: native.Rollout, ledger: Ledger, packing: _Packing) -> dict[str, Any]:
    infos = rollout.columns()
    arrays = {name: np.asarray(rollout[name]) for name, *_ in infos}
    places = {name: packing.add(dtype, arrays[name]) for name, dtype, *_ in infos}
    behaviour = places.get("sampler_logps", places.get("old_logps"))
    if "sampler_logps" not in arrays and "old_logps" in arrays:
        first = np.asarray(rollout.behaviour_logps)
        if not np.shares_memory(first, arrays["old_logps"]):
            behaviour = packing.add("float32", first)
    own = {"old_logps": ledger.versions, "kl_ref_logps": ledger.kl_versions}
    return {
        **{name: getattr(rollout, name) for name in PLAIN},
        "ref_version": ledger.versions.service(rollout.ref_version),
        "places": places,
        "behaviour": behaviour,
        "columns": [
            (name, dtype, count, version if version is None or name not in own else own[name].service(version))
            for name, dtype, count, version in infos
        ],
        "provenance": {name: made for name in arrays if (made := rollout.provenance(name)) is not None},
        "is_fresh": rollout.is_fresh(rollout.born_step),
    }


PLAIN = tuple("id created_step born_step token_count group_id reward advantage key metadata version_spans".split())
COLUMNS = ("prompt_ids", "completion_ids", "loss_mask", "old_logps", "sampler_logps", "kl_ref_logps")


class RemoteRollout:
    """A rollout of a service, as of the call that returned it: what :class:`rollstore.Rollout` is for a store.

    Arrays are read-only views into Ray's object store on this node. The answer that they came with stays there as long as one lives.
    """

    __slots__ = ("_row", "_skew", "_values", "_window")

    def __init__(self, row: dict[str, Any], values: npt.NDArray[np.uint8], window: int, skew: int) -> None:
        self._row, self._values, self._window, self._skew = row, values, window, skew

    def __getattr__(self, name: str) -> Any:
        if name in PLAIN or name == "ref_version":
            return self._row[name]
        if name in COLUMNS:
            return self[name]
        raise AttributeError(f"a rollout has no {name!r}; columns of your own are rollout[{name!r}]")

    def _view(self, place: Place) -> View:
        dtype, begin, end = place
        return self._values[begin:end].view(bfloat16 if dtype == "bfloat16" else dtype).view(View)

    @property
    def behaviour_logps(self) -> View:
        """Log-probs under the policy that sampled: the sampler's, or else the first old logps."""
        place = self._row["behaviour"]
        if place is None:
            raise NotFoundError(f"rollout {self.id} has no column behaviour_logps", id=self.id)
        return self._view(place)

    def __getitem__(self, column: str) -> View:
        place = self._row["places"].get(native.column_name(column))
        if place is None:
            raise NotFoundError(f"rollout {self.id} has no column {column}", id=self.id)
        return self._view(place)

    def __contains__(self, column: str) -> bool:
        return native.column_name(column) in self._row["places"]

    def columns(self) -> list[tuple[str, str, int, int | None]]:
        """Name, type, number of values and version (``None`` where it has none) of each column."""
        return self._row["columns"]

    def provenance(self, column: str) -> tuple[str, bool, float, float, int] | None:
        """Engine, whether processed, temperature, top-p and top-k of a column, where they were given."""
        return self._row["provenance"].get(native.column_name(column))

    def is_fresh(self, step: int) -> bool:
        """Whether the old logps may be used at ``step`` as they are."""
        born = self._row["born_step"]
        return self._row["is_fresh"] and step - born <= self._window and born <= step + self._skew

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteRollout, (self._row, self._values, self._window, self._skew)

    def __repr__(self) -> str:
        return f"<Rollout {self.id}>"


def unpack(packed: Packed, window: int, skew: int) -> list[RemoteRollout | None]:
    """The rollouts of an answer."""
    return [None if row is None else RemoteRollout(row, packed.values, window, skew) for row in packed.rows]
