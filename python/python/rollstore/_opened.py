"""What all rooms of an open store share: the native handle, where the store stands, and the numbers that calls take."""

from __future__ import annotations

import os

import numpy as np

from . import _rollstore as native
from .errors import DTypeError, InvalidError


class Opened:
    """An open store, of which no more is known than where it stands."""

    def __init__(self, store: native.Store) -> None:
        self._store = store

    def _new_batch(self) -> native.Batch:
        return native.Batch()

    def check_open(self) -> None:
        """Raises :class:`InvalidError` where the store is closed."""
        self._store.get_many(np.empty(0, np.uint64))

    @property
    def path(self) -> str:
        """The store's directory."""
        return os.fspath(self._store.path)

    @property
    def window(self) -> int:
        """Steps for which old logps count as fresh."""
        return self._store.window

    @property
    def max_version_lag(self) -> int:
        """Advances of the ref version for which old logps count as fresh."""
        return self._store.max_version_lag

    @property
    def ref_version(self) -> int:
        """The current ref version: of the weights that old logps computed now are made with. A new store's is 0."""
        return self._store.ref_version()

    @property
    def kl_ref_version(self) -> int:
        """The current version of the KL reference."""
        return self._store.kl_ref_version()

    @property
    def clock(self) -> int | None:
        """The highest step that the trainer itself acted at: by an advance, a weight update or an apply."""
        return self._store.clock()

    @property
    def cursor(self) -> bytes | None:
        """The cursor of the last commit that set one."""
        return self._store.cursor()

    def ref_version_of(self, label: int) -> int | None:
        """The ref version that an advance with this label made."""
        return self._store.ref_version_of(step_of(label, "label"))


def id_of(id: int | str) -> int:
    return native.id_from_key(id) if isinstance(id, str) else step_of(id, "id")


def number_of(value: int | None, what: str) -> int | None:
    return None if value is None else step_of(value, what)


def step_of(value: int, what: str = "step") -> int:
    """A whole number from 0 to 2**64 - 1."""
    try:
        number = value.__index__()
    except AttributeError:
        raise DTypeError(f"{what} is {value!r}, it must be a whole number") from None
    if not 0 <= number < 1 << 64:
        raise InvalidError(f"{what} is {number}, it must be 0 to 2**64 - 1")
    return number
