"""The store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from . import _rollstore as native
from ._arrays import id_array
from ._computing import Computing
from ._opened import number_of
from ._partials import Partials
from ._reading import Reading
from ._saving import Saving
from ._upkeep import Upkeep
from ._weights import Weights
from .errors import Error, InvalidError

if TYPE_CHECKING:
    import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs, reportMissingImports]


class RolloutStore(Partials, Computing, Reading, Weights, Saving, Upkeep):
    """An open store of rollouts: :meth:`open` one. It may be used from any thread; calls let other threads run.

    Steps are the trainer's persistent global steps, never micro-steps that restart. Ids are whole numbers from 0 to 2**64 - 1
    (or string keys, whose hashes take the upper half); they come as lists, NumPy arrays or torch tensors.

    Pickled it is opened again, read-only, by its path: for data-loader workers. A forked child may not write.
    """

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        window: int | None = None,
        max_version_lag: int | None = None,
        durability: Literal["synced", "buffered"] = "synced",
        max_delay: float = 0.5,
        read_only: bool = False,
        create: bool = True,
        run_identity: bytes | str | None = None,
        resume_step: int | None = None,
        step_skew: int | None = None,
        step_jump_max: int | None = None,
        retire_after: int | None = None,
        segment_bytes: int | None = None,
        quota_bytes: int | None = None,
        background_compaction: bool = True,
        reads: Literal["auto", "mapped", "copied"] = "auto",
        recheck_always: bool = False,
    ) -> RolloutStore:
        """Opens the store in a directory, and creates it where there is none.

        Args:
            path: the directory.
            window: steps for which old logps count as fresh: ``age > window`` is out of window. A new store needs it, since no
                value fits every run; ``2**64 - 1`` means no bound.
            max_version_lag: advances of the ref version for which old logps count as fresh; 0 for a new store.
            durability: ``"synced"``: a commit returns when it survives power loss. ``"buffered"``: when it survives a killed
                process; power loss may cost the newest commits, those of ``max_delay`` and the sync behind it.
            max_delay: seconds from a buffered commit to the beginning of its sync.
            read_only: takes no lock and writes nothing. Checkpoints open only so.
            create: whether a store that is not there is created.
            run_identity: what the run is (model, tokenizer, temperature); opening with another is refused.
            resume_step: the step that the trainer resumes at; a store that is further is refused.
            step_skew: steps by which a call may lie behind the clock, and a born step ahead; 1 unless given.
            step_jump_max: steps by which a step may lie ahead of the clock before it is refused; 10,000 unless given.
            retire_after: with each advance, what was created more than so many steps before the clock is retired.
            segment_bytes: size of a log file; 256 MiB unless given.
            quota_bytes: the most that the log files may take together.
            background_compaction: whether a thread of the store gives space back while the trainer runs.
            reads: ``"mapped"`` without copies, ``"copied"`` for file systems that are shared between machines.
            recheck_always: whether checksums are checked on every access instead of once a process.

        Raises:
            InvalidError: options that do not fit, or a directory that is no store.
            StoreNotFoundError: no store, with ``create=False`` or ``read_only=True``.
            LockedError: another writer has it; the message names its process.
            DamagedError, TooNewError, StoreIOError: what is on disk cannot be read.
        """
        if durability not in ("synced", "buffered"):
            raise InvalidError(f"durability is {durability!r}, it must be 'synced' or 'buffered'")
        identity = run_identity.encode() if isinstance(run_identity, str) else run_identity
        args: native.OpenArgs = {
            "window": number_of(window, "window"),
            "max_version_lag": number_of(max_version_lag, "max_version_lag"),
            "step_skew": number_of(step_skew, "step_skew"),
            "step_jump_max": number_of(step_jump_max, "step_jump_max"),
            "retire_after": number_of(retire_after, "retire_after"),
            "segment_bytes": number_of(segment_bytes, "segment_bytes"),
            "quota_bytes": number_of(quota_bytes, "quota_bytes"),
            "max_delay": max_delay if durability == "buffered" else None,
            "background_compaction": background_compaction,
            "run_identity": identity,
            "resume_step": number_of(resume_step, "resume_step"),
            "create": create,
            "read_only": read_only,
            "reads": reads,
            "recheck_always": recheck_always,
        }
        try:
            return cls(native.Store.open(path, args))
        except Error as error:
            error.path = error.path or os.fspath(path)
            raise

    def to_arrow(self, ids: Any = None, columns: Sequence[str] | None = None) -> pa.Table:  # pyright: ignore[reportUnknownParameterType]
        """The rollouts as a ``pyarrow.Table``, one row each, with lists for columns that they have; null where one has none.

        ``ids`` are all live ones unless given; ``columns`` the well-known ones, and those of the first rollout.
        """
        from ._arrow import table

        return table(self, self.ids() if ids is None else id_array(ids), columns)

    def close(self) -> None:
        """Closes the store: seals its log, and lets the lock go. Views stay valid; calls on the store raise afterwards. Closing
        twice is closing once."""
        self._store.close()

    def __enter__(self) -> RolloutStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.path,)

    def __repr__(self) -> str:
        return f"<RolloutStore {self.path!r}>"


def _reopen(path: str) -> RolloutStore:
    return RolloutStore.open(path, read_only=True)
