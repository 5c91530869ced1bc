"""What goes wrong, by what the caller does next.

Every exception of this package is an :class:`Error` and also the built-in exception that fits it, so that ``except
rollstore.Error`` and ``except ValueError`` both work. All of them can be pickled, and tell in attributes what the message says
in words.
"""

from __future__ import annotations

import errno as _errno
import os
from typing import Any

__all__ = [
    "DTypeError",
    "DamagedError",
    "Error",
    "FencedError",
    "FullError",
    "InternalError",
    "InvalidError",
    "LockedError",
    "NotFoundError",
    "PoisonedError",
    "StoreIOError",
    "StoreNotFoundError",
    "TooNewError",
]


class Error(Exception):
    """Anything that this package raises itself.

    A function of yours that raises inside a call of the store is not wrapped: its own exception comes out.
    """

    kind: str = "internal"
    """What to do next, in one word: the name of the class in lower case."""

    def __init__(
        self,
        message: str = "",
        *,
        path: str | os.PathLike[str] | None = None,
        id: int | None = None,
        row: int | None = None,
        errno: int | None = None,
        offset: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path: str | None = None if path is None else os.fspath(path)
        """The file or directory that it is about, where there is one."""
        self.id: int | None = id
        """The rollout that it is about, where there is one."""
        self.row: int | None = row
        """The row of the call's arrays that it is about, counted from 0, where there is one."""
        self.offset: int | None = offset
        """The byte in the file ``path`` where damage begins."""
        if errno is not None:
            self.errno = errno

    def __str__(self) -> str:
        return self.message if self.row is None else f"row {self.row}: {self.message}"

    def __reduce__(self) -> tuple[Any, ...]:
        details = {"path": self.path, "id": self.id, "row": self.row, "offset": self.offset}
        details["errno"] = getattr(self, "errno", None)
        return _make, (type(self), self.message, details)


class InvalidError(Error, ValueError):
    """The call was wrong: fix the arguments. Nothing changed."""

    kind = "invalid"


class DTypeError(InvalidError, TypeError):
    """Values are of a type that the column or buffer does not take. Nothing is cast down silently."""

    kind = "invalid"


class NotFoundError(Error, KeyError):
    """There is no such rollout or column."""

    kind = "not_found"


class StoreNotFoundError(NotFoundError, FileNotFoundError):
    """There is no store, checkpoint or file at the path."""

    kind = "not_found"


class LockedError(Error, OSError):
    """Another process, or another handle of this one, writes the store: end it, or open read-only."""

    kind = "locked"


class FullError(Error, OSError):
    """No space, or the quota is reached: free some, then go on."""

    kind = "full"


class DamagedError(Error, OSError):
    """Bytes on disk are not what was written: verify, then restore or repair. ``path`` and ``offset`` say where."""

    kind = "damaged"


class PoisonedError(Error, RuntimeError):
    """An earlier write failed: reopen the store. Reads go on."""

    kind = "poisoned"


class FencedError(Error, RuntimeError):
    """Another writer took the store over, on a file system without locks: end this one."""

    kind = "fenced"


class TooNewError(Error, RuntimeError):
    """A newer version wrote the store: upgrade."""

    kind = "too_new"


class StoreIOError(Error, OSError):
    """The operating system refused or failed an operation; ``errno`` says which failure."""

    kind = "io"


class InternalError(Error, RuntimeError):
    """The store failed in a way that it should not. Please report it."""

    kind = "internal"


_KINDS: dict[str, type[Error]] = {
    "invalid": InvalidError,
    "not_found": NotFoundError,
    "locked": LockedError,
    "full": FullError,
    "damaged": DamagedError,
    "poisoned": PoisonedError,
    "fenced": FencedError,
    "too_new": TooNewError,
    "io": StoreIOError,
    "internal": InternalError,
}


def _make(cls: type[Error], message: str, details: dict[str, Any]) -> Error:
    return cls(message, **details)


def _from_native(kind: str, message: str, **details: Any) -> Error:  # pyright: ignore[reportUnusedFunction]
    """The exception of an error of the native half."""
    cls = _KINDS.get(kind, InternalError)
    if cls is NotFoundError and details.get("id") is None and details.get("path") is not None:
        cls = StoreNotFoundError
        details["errno"] = _errno.ENOENT
    if cls is FullError and details.get("errno") is None:
        details["errno"] = _errno.ENOSPC
    return cls(message, **details)
