"""Rollouts on their way to a client: their columns as plain arrays, which Ray's object store takes over as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _rollstore as native
from .._arrays import View
from ..errors import NotFoundError
from ._ledger import Ledger

Packed = dict[str, Any]
"""A rollout, without the store that it lies in."""


def pack(rollout: native.Rollout | None, ledger: Ledger) -> Packed | None:
    """A rollout as a client gets it."""
    if rollout is None:
        return None
    infos = rollout.columns()
    arrays = {name: np.asarray(rollout[name]) for name, *_ in infos}
    behaviour = None
    if "sampler_logps" not in arrays and "old_logps" in arrays:
        first = np.asarray(rollout.behaviour_logps)
        behaviour = None if np.shares_memory(first, arrays["old_logps"]) else first
    own = {"old_logps": ledger.versions, "kl_ref_logps": ledger.kl_versions}
    return {
        "id": rollout.id,
        "created_step": rollout.created_step,
        "born_step": rollout.born_step,
        "ref_version": ledger.versions.service(rollout.ref_version),
        "token_count": rollout.token_count,
        "group_id": rollout.group_id,
        "reward": rollout.reward,
        "advantage": rollout.advantage,
        "key": rollout.key,
        "metadata": rollout.metadata,
        "version_spans": rollout.version_spans,
        "arrays": arrays,
        "behaviour": behaviour,
        "columns": [
            (name, dtype, count, version if version is None or name not in own else own[name].service(version))
            for name, dtype, count, version in infos
        ],
        "provenance": {name: made for name in arrays if (made := rollout.provenance(name)) is not None},
        "is_fresh": rollout.is_fresh(rollout.born_step),
    }


class RemoteRollout:
    """A rollout of a service, as of the call that returned it: what :class:`rollstore.Rollout` is for a store.

    Arrays are read-only views into Ray's object store on this node, valid for as long as they live.
    """

    __slots__ = ("_packed", "_skew", "_window")

    def __init__(self, packed: Packed, window: int, skew: int) -> None:
        self._packed, self._window, self._skew = packed, window, skew

    def __getattr__(self, name: str) -> Any:
        if name in _NUMBERS:
            return self._packed[name]
        if name in _COLUMNS:
            return self[name]
        raise AttributeError(f"a rollout has no {name!r}; columns of your own are rollout[{name!r}]")

    @property
    def behaviour_logps(self) -> Any:
        """Log-probs under the policy that sampled: the sampler's, or else the first old logps."""
        first = self._packed["behaviour"]
        if first is not None:
            return first.view(View)
        return self["sampler_logps" if "sampler_logps" in self else "old_logps"]

    def __getitem__(self, column: str) -> Any:
        array = self._packed["arrays"].get(native.column_name(column))
        if array is None:
            raise NotFoundError(f"rollout {self.id} has no column {column}", id=self.id)
        return array.view(View)

    def __contains__(self, column: str) -> bool:
        return native.column_name(column) in self._packed["arrays"]

    def columns(self) -> list[tuple[str, str, int, int | None]]:
        """Name, type, number of values and version (``None`` where it has none) of each column."""
        return self._packed["columns"]

    def provenance(self, column: str) -> tuple[str, bool, float, float, int] | None:
        """Engine, whether processed, temperature, top-p and top-k of a column, where they were given."""
        return self._packed["provenance"].get(native.column_name(column))

    def is_fresh(self, step: int) -> bool:
        """Whether the old logps may be used at ``step`` as they are."""
        born = self._packed["born_step"]
        return self._packed["is_fresh"] and step - born <= self._window and born <= step + self._skew

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteRollout, (self._packed, self._window, self._skew)

    def __repr__(self) -> str:
        return f"<Rollout {self.id}>"


_NUMBERS = frozenset(
    "id created_step born_step ref_version token_count group_id reward advantage key metadata version_spans".split()
)
_COLUMNS = frozenset(("prompt_ids", "completion_ids", "loss_mask", "old_logps", "sampler_logps", "kl_ref_logps"))


def unpack(packed: Sequence[Packed | None], window: int, skew: int) -> list[RemoteRollout | None]:
    """The rollouts of an answer."""
    return [None if one is None else RemoteRollout(one, window, skew) for one in packed]
