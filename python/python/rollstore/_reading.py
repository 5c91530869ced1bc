"""Reading: single rollouts, columns of many, and lists of who is fresh and who is not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from . import _rollstore as native
from ._arrays import U64, as_array, bfloat16, dtype_name, id_array, is_tensor
from ._opened import Opened, id_of, step_of
from ._results import Flat, Padded, Staleness
from .errors import DTypeError, InvalidError, NotFoundError

Side = Literal["left", "right"]
"""On which side of a row its padding goes."""

Stale = Literal["error", "allow"]
"""What a gather does with log-probs that are not fresh: refuse and name them, or serve them as they are."""


class Reading(Opened):
    """Reads. Each call sees one committed state, and none waits for a sync."""

    def get(self, id: int | str) -> native.Rollout | None:
        """A view of a rollout; ``None`` where the id is not live. Its arrays are read-only and no copies."""
        return self._store.get(id_of(id))

    def get_many(self, ids: Any) -> list[native.Rollout | None]:
        """Views of rollouts, in the order given, as of one commit; ``None`` for each id that is not live. Faster than so many
        :meth:`get`. Where one column is wanted as an array, :meth:`gather` is."""
        return self._store.get_many(id_array(ids))

    def __getitem__(self, id: int | str) -> native.Rollout:
        rollout = self.get(id)
        if rollout is None:
            raise NotFoundError(f"rollout {id} is not live", id=id_of(id))
        return rollout

    def __len__(self) -> int:
        return len(self._store)

    def __contains__(self, id: int | str) -> bool:
        return self.get(id) is not None

    def __iter__(self) -> Iterator[int]:
        return iter([int(id) for id in self.ids()])

    def gather(
        self,
        ids: Any,
        column: str,
        out: Any = None,
        *,
        step: int | None = None,
        pad: float = 0.0,
        side: Side = "right",
        stale: Stale = "error",
        kind: Literal["raw", "processed"] | None = None,
    ) -> Padded:
        """One column of these rollouts, padded, in the order given.

        Args:
            ids: ``[B]``.
            column: its name, here or in TRL, verl or AReaL.
            out: a contiguous buffer ``[B, T]``, NumPy's or torch's on the CPU (pinned, for a copy to the device that does not
                wait), of the column's type or one that holds all its values: int64 for token ids, float32 for bfloat16. Without
                one an array as wide as the longest row is made.
            step: the trainer's step. Old logps need it: whether they are fresh depends on it.
            pad: the value of the padding.
            side: the padding's side: ``"right"`` for completions, ``"left"`` for prompts.
            stale: ``"error"`` refuses log-probs that are not fresh, ``"allow"`` serves them. Missing ones are refused always.
            kind: the kind of log-probs that the column must hold.

        Raises:
            NotFoundError: an id that is not live, or a rollout without the column; ``row`` says which.
            InvalidError: log-probs that are not fresh, rows longer than the buffer's. The buffer is unchanged then.
        """
        ask = _ask(column, step, stale, kind)
        padding = (float(pad), is_left(side))
        numbers = id_array(ids)
        if out is None:
            dtype, values, row_len, lens = self._store.gather_padded(numbers, ask, padding)
            return Padded(_named(dtype, values).reshape(len(lens), row_len), lens)
        known = _known(out)
        filled = None if known is None else self._store.gather_out(numbers, ask, known, padding)
        if filled is not None:
            return Padded(out, filled)
        array = _writable(out)
        if array.shape[0] != len(numbers):
            raise InvalidError(f"out has {array.shape[0]} rows, there are {len(numbers)} ids")
        flat = array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)
        return Padded(out, self._store.gather_into(numbers, ask, flat, (dtype_name(array.dtype), array.shape[1]), padding))

    def gather_flat(
        self,
        ids: Any,
        column: str,
        *,
        step: int | None = None,
        stale: Stale = "error",
        kind: Literal["raw", "processed"] | None = None,
    ) -> Flat:
        """One column of these rollouts behind each other, without padding; see :meth:`gather`."""
        dtype, values, ends = self._store.gather_flat(id_array(ids), _ask(column, step, stale, kind))
        if len(values) > np.iinfo(np.int32).max:
            raise InvalidError(f"{len(values)} values are more than cu_seqlens count (2**31 - 1); ask for fewer rollouts")
        return Flat(_named(dtype, values), ends.astype(np.int32))

    def staleness(self, ids: Any, step: int) -> Staleness:
        """Why these rollouts are fresh or not at ``step``: arrays ``[B]``. No log-probs are read."""
        return Staleness(*self._store.staleness(id_array(ids), step_of(step)))

    def ids(self) -> U64:
        """Every live rollout, oldest born first, then by id."""
        return self._store.scan("all", 0)

    def out_of_window(self, step: int) -> U64:
        """Rollouts whose age at ``step`` is above the window, in no promised order."""
        return self._store.scan("out_of_window", step_of(step))

    def stale(self) -> U64:
        """Rollouts whose old logps are more than ``max_version_lag`` advances behind, in no promised order."""
        return self._store.scan("stale", 0)

    def needs_recompute(self, step: int) -> U64:
        """Rollouts that are out of window or stale, in no promised order; :meth:`plan_due` hands out the most urgent first."""
        return self._store.scan("needs_recompute", step_of(step))

    def from_future(self, step: int) -> U64:
        """Rollouts born more than the step skew after ``step``, never fresh at it, in no promised order."""
        return self._store.scan("from_future", step_of(step))

    def missing(self) -> U64:
        """Rollouts without old logps, oldest born first, then by id."""
        return self._store.scan("missing", 0)

    def group(self, group_id: int) -> U64:
        """The live rollouts of a group, by id."""
        return self._store.scan("group", step_of(group_id, "group_id"))

    def count_needs_recompute(self, step: int) -> int:
        """How many rollouts are due at ``step``, without listing them."""
        return self._store.count("needs_recompute", step_of(step))

    def count_out_of_window(self, step: int) -> int:
        """How many rollouts are out of window at ``step``, without listing them."""
        return self._store.count("out_of_window", step_of(step))

    def count_stale(self) -> int:
        """How many rollouts are stale, without listing them."""
        return self._store.count("stale", 0)

    def would_recompute(self, step: int, window: int, max_version_lag: int) -> int:
        """How many rollouts would be due at ``step`` with other bounds. Nothing is written."""
        return self._store.would_recompute(step_of(step), step_of(window, "window"), step_of(max_version_lag, "max_version_lag"))

    def diagnose(self, step: int) -> str:
        """Why nothing is fresh, in a line for the log: how many rollouts, what keeps them, which option would change it."""
        return self._store.diagnose(step_of(step))


def _ask(
    column: str, step: int | None, stale: Stale, kind: Literal["raw", "processed"] | None
) -> tuple[str, str | None, int, bool]:
    if stale not in ("error", "allow"):
        raise InvalidError(f"stale is {stale!r}, it must be 'error' or 'allow'")
    if step is None:
        if native.column_name(column) == "old_logps" and stale == "error":
            raise InvalidError("whether old_logps are fresh depends on the trainer's step: give step=, or stale='allow'")
        step = 0
    return column, kind, step_of(step), stale == "allow"


def is_left(side: Side) -> bool:
    if side not in ("left", "right"):
        raise InvalidError(f"side is {side!r}, it must be 'left' or 'right'")
    return side == "left"


def _named(dtype: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if dtype == "float16":
        return values.view(np.float16)
    return values.view(bfloat16) if dtype == "bfloat16" else values


def _known(out: Any) -> npt.NDArray[Any] | None:
    """The memory of an array, or of a plain tensor, without a look at it; ``None`` where :func:`_writable` has to look."""
    torch = sys.modules.get("torch")
    if torch is None or type(out) is not torch.Tensor:
        return out if type(out) is np.ndarray else None
    try:
        return out.numpy()
    except (RuntimeError, TypeError):  # it needs a gradient, lies elsewhere, or is of a type that NumPy has not
        return None


def _writable(out: Any) -> npt.NDArray[Any]:
    """The caller's buffer as an array that shares its memory."""
    if is_tensor(out):
        if out.device.type != "cpu" or not out.is_contiguous() or out.requires_grad:
            raise InvalidError("out must lie on the CPU, contiguous, and need no gradient")
    elif not isinstance(out, np.ndarray):
        raise DTypeError(f"out is a {type(out).__name__}, it must be an array or tensor")
    array = as_array(out, "out")
    if array.ndim != 2 or not array.flags.c_contiguous or not array.flags.writeable:
        raise InvalidError(f"out has shape {list(array.shape)}; it must be [rows, T], contiguous and writeable")
    return array
