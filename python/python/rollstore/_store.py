"""The store."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from . import _rollstore as native
from ._arrays import U64, as_array, bfloat16, dtype_name, id_array, is_tensor
from ._batch import Batch, Provenance, Reason
from ._plan import Agree, Applied, Budget, Computed, Plan, agree_of, budget_of, computed_of
from ._results import (
    Compacted,
    Finding,
    Flat,
    Padded,
    Recomputed,
    Served,
    SetAside,
    Staleness,
    Swept,
    Verification,
)
from .errors import DTypeError, Error, InvalidError, NotFoundError

if TYPE_CHECKING:
    import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs, reportMissingImports]

Side = Literal["left", "right"]
"""On which side of a row its padding goes."""

Stale = Literal["error", "allow"]
"""What a gather does with log-probs that are not fresh: refuse and name them, or serve them as they are."""


class WeightUpdate:
    """A change of the weights, as a context manager: see :meth:`RolloutStore.weight_update`."""

    def __init__(self, store: RolloutStore, step: int) -> None:
        self._store = store
        self._step = step
        self._update: native.WeightUpdate | None = None
        self.ref_version: int | None = None
        """The version behind the update, once it has ended."""

    def __enter__(self) -> WeightUpdate:
        self._update = self._store._store.begin_weight_update(self._step)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        update, self._update = self._update, None
        if update is not None:
            # Also where the block raised: when in doubt, stale.
            self.ref_version = update.finish()


class RolloutStore:
    """An open store of rollouts: :meth:`open` one. It may be used from any thread; calls let other threads run.

    Steps are the trainer's persistent global steps, never micro-steps that restart. Ids are whole numbers from 0 to 2**64 - 1
    (or string keys, whose hashes take the upper half); they come as lists, NumPy arrays or torch tensors.

    Pickled it is opened again, read-only, by its path: for data-loader workers. A forked child may not write.
    """

    def __init__(self, store: native.Store) -> None:
        self._store = store

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
            "window": _number(window, "window"),
            "max_version_lag": _number(max_version_lag, "max_version_lag"),
            "step_skew": _number(step_skew, "step_skew"),
            "step_jump_max": _number(step_jump_max, "step_jump_max"),
            "retire_after": _number(retire_after, "retire_after"),
            "segment_bytes": _number(segment_bytes, "segment_bytes"),
            "quota_bytes": _number(quota_bytes, "quota_bytes"),
            "max_delay": max_delay if durability == "buffered" else None,
            "background_compaction": background_compaction,
            "run_identity": identity,
            "resume_step": _number(resume_step, "resume_step"),
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

    # What it is.

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
        return self._store.ref_version_of(_step(label, "label"))

    def __len__(self) -> int:
        return len(self._store)

    def __contains__(self, id: int | str) -> bool:
        return self.get(id) is not None

    def __iter__(self) -> Iterator[int]:
        return iter([int(id) for id in self.ids()])

    def __repr__(self) -> str:
        return f"<RolloutStore {self.path!r}>"

    # Writing.

    def batch(self) -> Batch:
        """Operations that become one atomic commit."""
        return Batch(self)

    def insert(
        self,
        ids: Any,
        created_step: Any,
        *,
        completion_ids: Any = None,
        prompt_ids: Any = None,
        old_logps: Any = None,
        old_version: Any = None,
        sampler_logps: Any = None,
        kl_ref_logps: Any = None,
        kl_ref_version: Any = None,
        loss_mask: Any = None,
        group_ids: Any = None,
        rewards: Any = None,
        advantages: Any = None,
        columns: Mapping[str, Any] | None = None,
        lengths: Any = None,
        prompt_lengths: Any = None,
        column_lengths: Mapping[str, Any] | None = None,
        metadata: Sequence[bytes] | None = None,
        version_spans: Sequence[Sequence[tuple[int, int]]] | None = None,
        provenance: Mapping[str, Provenance] | None = None,
        replace: bool = False,
    ) -> int:
        """Inserts ``B`` rollouts in one commit: all of them, or none.

        A column of ``B`` rows is a list of ``B`` arrays, in which ``None`` stands for a row that has none; or padded ``[B, T]``
        with ``lengths``; or a pair ``(values, offsets)``. Arrays are NumPy's, torch's on the CPU, or plain lists.

        Args:
            ids: ``[B]``, not live yet. String keys are kept with their rollouts.
            created_step: the step at which they were sampled; one, or ``[B]``.
            completion_ids, prompt_ids: token ids, of any whole type; stored as uint32.
            old_logps: log-probs under the old policy, float32, in nats. NaN, infinities and values above 0.001 are refused where
                the loss mask is not 0.
            old_version: the ref version whose weights made ``old_logps``: the one that was current when their computation began,
                never "now". One, or ``[B]``.
            sampler_logps: log-probs that the inference engine reported, float32; NaN for "not reported", kept bit for bit.
            kl_ref_logps, kl_ref_version: log-probs under the KL reference model, and its version.
            loss_mask: 1 where a completion token counts in the loss, else 0.
            group_ids, rewards, advantages: one number a rollout.
            columns: columns of your own by name, float32, float16, bfloat16, int32, int64, uint32 or uint8. Well-known ones may
                be given here under the names of TRL, verl or AReaL.
            lengths: what counts of padded completion columns: ``[B]`` lengths, or a mask ``[B, T]`` of any padding side.
            prompt_lengths: the same for ``prompt_ids``.
            column_lengths: the same for single columns, by name.
            metadata: bytes of your own, one for each rollout.
            version_spans: for each rollout, the versions that the sampler went through, with their numbers of tokens.
            provenance: how log-prob columns were made.
            replace: whether the ids are live, and these rollouts take their places.

        Returns:
            The commit's number in the log (LSN).

        Raises:
            DTypeError: values of another type; nothing is cast down silently.
            InvalidError: lengths that do not agree, NaN, a live id, an id below 0, a version that was never issued. ``row`` says
                which rollout.
        """
        batch = self.batch()
        batch.insert(
            ids,
            created_step,
            completion_ids=completion_ids,
            prompt_ids=prompt_ids,
            old_logps=old_logps,
            old_version=old_version,
            sampler_logps=sampler_logps,
            kl_ref_logps=kl_ref_logps,
            kl_ref_version=kl_ref_version,
            loss_mask=loss_mask,
            group_ids=group_ids,
            rewards=rewards,
            advantages=advantages,
            columns=columns,
            lengths=lengths,
            prompt_lengths=prompt_lengths,
            column_lengths=column_lengths,
            metadata=metadata,
            version_spans=version_spans,
            provenance=provenance,
            replace=replace,
        )
        return batch.commit().lsn

    def retire(self, ids: Any, reason: Reason = "trained") -> int:
        """Ends rollouts and returns how many were live; the others are passed over."""
        batch = self.batch()
        batch.retire(ids, reason)
        return batch.commit().retired

    def retire_created_before(self, step: int, reason: Reason = "evicted") -> int:
        """Ends every rollout created before ``step``, and returns how many: one small record, whatever their number."""
        batch = self.batch()
        batch.retire_created_before(_step(step), reason)
        return batch.commit().retired

    def retire_version_before(self, version: int, reason: Reason = "stale") -> int:
        """Ends every rollout whose old logps are of a ref version before ``version``, and returns how many."""
        batch = self.batch()
        batch.retire_version_before(_step(version, "version"), reason)
        return batch.commit().retired

    def retire_groups(self, group_ids: Any, reason: Reason = "trained") -> int:
        """Ends the rollouts of whole groups, and returns how many rollouts ended."""
        batch = self.batch()
        batch.retire_groups(group_ids, reason)
        return batch.commit().retired

    def set_cursor(self, cursor: bytes) -> int:
        """Sets the cursor alone: where the trainer itself stands, as bytes of its own. Returns the LSN."""
        batch = self.batch()
        batch.cursor(cursor)
        return batch.commit().lsn

    def allocate_ids(self, count: int) -> U64:
        """``count`` ids in a row that were never used or handed out before. Shape ``[count]``."""
        return self._store.allocate_ids(_step(count, "count"))

    # The weights.

    def weight_update(self, step: int) -> WeightUpdate:
        """Changes the weights inside ``with store.weight_update(step):``, and advances the ref version at its end, also where the
        block raises: when in doubt, stale. Plans of other threads wait meanwhile; one of this thread is refused.

        Raises :class:`InvalidError` for a step that the trainer cannot be at; the block does not run then.
        """
        return WeightUpdate(self, _step(step))

    def advance_ref_version(self, step: int, label: int | None = None) -> int:
        """Counts the ref version up and returns it: the old policy changed at ``step``. One log record, whatever the number of
        rollouts. ``label`` is the trainer's own version number; the same again is a no-op."""
        return self._store.advance_ref_version(_step(step), _number(label, "label"))

    def advance_kl_ref_version(self, label: int | None = None) -> int:
        """Counts the version of the KL reference up and returns it; old logps stay fresh."""
        return self._store.advance_kl_ref_version(_number(label, "label"))

    # Reading.

    def get(self, id: int | str) -> native.Rollout | None:
        """A view of a rollout; ``None`` where the id is not live. Its arrays are read-only and no copies."""
        return self._store.get(_id(id))

    def __getitem__(self, id: int | str) -> native.Rollout:
        rollout = self.get(id)
        if rollout is None:
            raise NotFoundError(f"rollout {id} is not live", id=_id(id))
        return rollout

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
        padding = (float(pad), _is_left(side))
        numbers = id_array(ids)
        if out is None:
            dtype, values, row_len, lens = self._store.gather_padded(numbers, ask, padding)
            return Padded(_named(dtype, values).reshape(len(lens), row_len), lens)
        if type(out) is np.ndarray:
            filled = self._store.gather_out(numbers, ask, out, padding)
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
        return Staleness(*self._store.staleness(id_array(ids), _step(step)))

    def ids(self) -> U64:
        """Every live rollout, oldest born first, then by id."""
        return self._store.scan("all", 0)

    def out_of_window(self, step: int) -> U64:
        """Rollouts whose age at ``step`` is above the window, in no promised order."""
        return self._store.scan("out_of_window", _step(step))

    def stale(self) -> U64:
        """Rollouts whose old logps are more than ``max_version_lag`` advances behind, in no promised order."""
        return self._store.scan("stale", 0)

    def needs_recompute(self, step: int) -> U64:
        """Rollouts that are out of window or stale, in no promised order; :meth:`plan_due` hands out the most urgent first."""
        return self._store.scan("needs_recompute", _step(step))

    def from_future(self, step: int) -> U64:
        """Rollouts born more than the step skew after ``step``, never fresh at it, in no promised order."""
        return self._store.scan("from_future", _step(step))

    def missing(self) -> U64:
        """Rollouts without old logps, oldest born first, then by id."""
        return self._store.scan("missing", 0)

    def group(self, group_id: int) -> U64:
        """The live rollouts of a group, by id."""
        return self._store.scan("group", _step(group_id, "group_id"))

    def count_needs_recompute(self, step: int) -> int:
        """How many rollouts are due at ``step``, without listing them."""
        return self._store.count("needs_recompute", _step(step))

    def count_out_of_window(self, step: int) -> int:
        """How many rollouts are out of window at ``step``, without listing them."""
        return self._store.count("out_of_window", _step(step))

    def count_stale(self) -> int:
        """How many rollouts are stale, without listing them."""
        return self._store.count("stale", 0)

    def would_recompute(self, step: int, window: int, max_version_lag: int) -> int:
        """How many rollouts would be due at ``step`` with other bounds. Nothing is written."""
        return self._store.would_recompute(_step(step), _step(window, "window"), _step(max_version_lag, "max_version_lag"))

    def diagnose(self, step: int) -> str:
        """Why nothing is fresh, in a line for the log: how many rollouts, what keeps them, which option would change it."""
        return self._store.diagnose(_step(step))

    # Computing.

    def plan_for(self, ids: Any, step: int) -> Plan:
        """What must be computed for these ids before they are used at ``step``: those that are missing, stale, out of window or
        from the future. ``plan.positions`` are their rows. An id given twice is planned once."""
        return Plan(self._store.plan_for(id_array(ids), _step(step)))

    def plan_kl_ref_for(self, ids: Any, step: int) -> Plan:
        """As :meth:`plan_for`, for KL reference log-probs: those that have none of the current KL reference version."""
        return Plan(self._store.plan_kl_ref_for(id_array(ids), _step(step)))

    def plan_due(self, step: int, budget: Budget | int | None = None) -> Plan:
        """What is out of window or stale at ``step``, most urgent first, as far as the budget goes (a number means rollouts)."""
        return Plan(self._store.plan_due(_step(step), budget_of(budget)))

    def apply(self, plan: Plan, values: Any) -> Applied:
        """Stores the results of a plan in one commit.

        A result is stored only where its rollout is what it was when the plan was made; it keeps the plan's version and step.

        Args:
            plan: what the results are of.
            values: log-probs of ``plan.ids``, in order, float32: a list of arrays, padded ``[len(plan), T]`` (of each row the
                first ``plan.lens`` count), ``(padded, lengths or mask)``, ``(values, offsets)``, or a mapping from ids. ``None``
                in a list, or an id left out, declines a rollout, which stays as it was.

        Raises:
            InvalidError: NaN, a wrong length, an id that is not of the plan: ``row`` is the row of the plan. Nothing is stored.
        """
        batch = self.batch()
        batch.apply(plan, values)
        return batch.commit().applied[0]

    def get_or_compute(
        self,
        ids: Any,
        step: int,
        fn: Callable[[Plan], Any],
        *,
        pad: float = 0.0,
        side: Side = "right",
        micro_batch: int | None = None,
        agree: Any = None,
    ) -> Served:
        """The old logps of these ids, fresh at ``step``: stored ones where they are fresh, computed ones where not.

        Args:
            ids: ``[B]``.
            step: the trainer's step.
            fn: takes a :class:`Plan` and returns its results in any form that :meth:`apply` takes. It may use the store. Where it
                raises, nothing is stored and its exception comes out.
            pad, side: as for :meth:`gather`.
            micro_batch: rollouts in one call of ``fn``; all of them unless given.
            agree: a function from a number to the greatest that any rank gave, or a torch process group. All ranks then call
                ``fn`` equally often, some with an empty plan, so that forwards of sharded models do not wait for ever.

        Raises:
            InvalidError: ``fn`` declined a rollout, or it was replaced meanwhile: ``row`` says which.
        """
        agreed = agree_of(agree)
        called = False

        def compute(native_plan: native.Plan) -> Computed:
            nonlocal called
            called = True
            plan = Plan(native_plan)
            return _merged([computed_of(part, fn(part)) for part in _parts(plan, micro_batch, agreed)])

        numbers = id_array(ids)
        values, row_len, lens, sources = self._store.get_or_compute(numbers, _step(step), compute, pad, _is_left(side))
        if not called and agreed is not None:
            # Nothing to compute here: the other ranks' forwards still need this one.
            for part in _parts(self.plan_for([], step), micro_batch, agreed):
                fn(part)
        if (sources > 1).any():
            row = int(np.argmax(sources > 1))
            why = "fn gave no result for it" if sources[row] == 2 else "it was replaced or computed meanwhile"
            id = int(numbers[row])
            raise InvalidError(f"rollout {id} has no fresh old_logps: {why}; ask again", id=id, row=row)
        return Served(values.reshape(len(lens), row_len), lens, sources == 1)

    def recompute(
        self,
        step: int,
        budget: Budget | int,
        fn: Callable[[Plan], Any],
        *,
        micro_batch: int = 64,
        agree: Any = None,
    ) -> Recomputed:
        """Computes what is due at ``step``, most urgent first, within the budget: micro-batches of one call of ``fn`` and one
        commit each, so that a crash costs at most one of them.

        ``fn`` and ``agree`` are those of :meth:`get_or_compute`. Where ``fn`` raises, the micro-batches before it stay stored.
        """
        agreed = agree_of(agree)
        limit = budget_of(budget)
        plan = self.plan_due(step, limit)
        ends = None if limit.seconds is None else time.monotonic() + limit.seconds
        done = Recomputed(0, 0, 0, 0)
        for part in _parts(plan, micro_batch, agreed, ends):
            values = fn(part)
            applied = self.apply(part, values) if len(part) else Applied(0, 0, 0)
            done = Recomputed(
                done.computed + applied.computed,
                done.dropped + applied.dropped,
                done.declined + applied.declined,
                done.micro_batches + 1,
            )
        return done

    def sweep(
        self,
        name: str,
        step: int,
        budget: Budget | int | None,
        fn: Callable[[Plan], Any],
        *,
        query: Literal["needs_recompute", "stale", "out_of_window", "all"] | tuple[Literal["created_before"], int] = "needs_recompute",
        order: Literal["oldest_born_first", "stalest_first", "log_order"] = "oldest_born_first",
        kl_ref: bool = False,
        complete_groups: int = 0,
        micro_batch: int = 64,
        retries: int = 2,
    ) -> Swept:
        """A pass over many rollouts that goes on under its name after a restart: computes what is left, as far as the budget goes.

        ``fn`` is that of :meth:`get_or_compute`. An exception in its list of results (not raised) says why one rollout failed: the
        others are stored, and it is tried again behind them, ``retries`` times. ``kl_ref`` computes KL reference log-probs;
        ``complete_groups`` takes only groups with so many live rollouts.
        """
        kind, of = (query, 0) if isinstance(query, str) else query
        swept = self._store.sweep(
            name,
            (kind, of),
            order,
            kl_ref,
            _step(complete_groups, "complete_groups"),
            _step(micro_batch, "micro_batch"),
            _step(retries, "retries"),
            _step(step),
            budget_of(budget),
            lambda plan: computed_of(Plan(plan), fn(Plan(plan))),
        )
        computed, dropped, failed, micro_batches, aside, finished = swept
        return Swept(computed, dropped, failed, micro_batches, [SetAside(*one) for one in aside], finished)

    def forget_sweep(self, name: str) -> bool:
        """Forgets how far a sweep has come; it begins anew. Returns whether any progress was stored."""
        return self._store.forget_sweep(name)

    # Saving and going back.

    def checkpoint(self, path: str | os.PathLike[str]) -> int:
        """Writes a checkpoint: everything committed until now, in a directory of its own. Files are linked where the file system
        can. Returns the bytes that were copied, 0 where all are links. One of the same run at the path is replaced in one step."""
        return self._store.checkpoint(path)

    @staticmethod
    def restore(checkpoint: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
        """Brings a checkpoint back into a directory: a fresh one, or a store of the same run, whose state since then is abandoned.
        What was fresh at the checkpoint is fresh again. The store must not be open."""
        native.restore(checkpoint, path)

    def rewind(self, step: int, *, created_later: Literal["keep", "drop"]) -> int:
        """Sets the clock back to ``step`` without a checkpoint: everything that stays is stale, at any lag. ``"drop"`` retires what
        was created after the step. Returns the new ref version. A step above the clock is refused."""
        if created_later not in ("keep", "drop"):
            raise InvalidError(f"created_later is {created_later!r}, it must be 'keep' or 'drop'")
        return self._store.rewind(_step(step), created_later == "keep")

    def state_dict(self) -> dict[str, Any]:
        """Where the store stands, for a trainer's own checkpoint: path, clock, versions, last LSN, cursor. It holds no rollouts."""
        stats, _ = self._store.stats()
        return {
            "path": self.path,
            "clock": self.clock,
            "ref_version": stats["ref_version"],
            "kl_ref_version": stats["kl_ref_version"],
            "last_lsn": stats["last_lsn"],
            "cursor": self.cursor,
        }

    def load_state_dict(
        self, state: Mapping[str, Any], *, created_later: Literal["error", "keep", "drop"] = "error"
    ) -> None:
        """Makes sure that the store stands where ``state`` says, as a trainer does that resumes from its checkpoint.

        A store that went on since then is refused, since its log-probs are of weights that will not come again; or, with
        ``"keep"`` or ``"drop"``, rewound to the state's step: see :meth:`rewind`. A store that lacks commits of the state is
        always refused.
        """
        stats, _ = self._store.stats()
        here, there = stats["last_lsn"], int(state["last_lsn"])
        if here < there:
            raise InvalidError(f"the store ends at LSN {here}, the state is of LSN {there}; restore its checkpoint")
        clock = state["clock"]
        if self.clock == clock and stats["ref_version"] == state["ref_version"]:
            return
        if created_later == "error" or clock is None:
            raise InvalidError(
                f"the store is at step {self.clock} and version {stats['ref_version']}, the state at step {clock} and version "
                f"{state['ref_version']}; restore a checkpoint, or load with created_later='keep' or 'drop'"
            )
        self.rewind(int(clock), created_later=created_later)

    # Upkeep.

    def compact(self, max_bytes: int | None = None) -> Compacted:
        """Gives space back: drops files in which nothing is alive, and copies what lives out of others, about ``max_bytes`` of it
        at most. Views stay valid."""
        return Compacted(*self._store.compact(_number(max_bytes, "max_bytes")))

    def verify(self) -> Verification:
        """Checks every byte on disk. Writes nothing."""
        return _verification(self._store.verify())

    def sync(self) -> None:
        """Returns when everything committed until now survives power loss; at once in a synced store."""
        self._store.sync()

    def wait_durable(self, lsn: int) -> None:
        """Returns when the commit of this LSN survives power loss."""
        self._store.wait_durable(_step(lsn, "lsn"))

    @property
    def durable_lsn(self) -> int:
        """The highest LSN known to be on disk."""
        return self._store.durable_lsn()

    def stats(self, prefix: str = "") -> dict[str, int]:
        """Figures of the store as a flat dict, ready for wandb or TensorBoard: ``wandb.log(store.stats("rollstore/"))``."""
        stats, warnings = self._store.stats()
        stats["warnings"] = len(warnings)
        return {prefix + name: number for name, number in stats.items()}

    def warnings(self) -> list[str]:
        """What a person should look at, in plain words, since the store was opened."""
        return self._store.stats()[1]

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


def verify(path: str | os.PathLike[str]) -> Verification:
    """Checks every byte of the store or checkpoint in a directory, and goes on past damage. Writes nothing, takes no lock."""
    return _verification(native.verify(path))


def _reopen(path: str) -> RolloutStore:
    return RolloutStore.open(path, read_only=True)


def _verification(seen: native.Verified) -> Verification:
    is_sound, is_checkpoint, segments, frames, size, found = seen
    findings = [Finding(os.fspath(finding[0]), *finding[1:]) for finding in found]
    return Verification(is_sound, is_checkpoint, segments, frames, size, findings)


def _parts(plan: Plan, micro_batch: int | None, agree: Agree | None, ends: float | None = None) -> Iterator[Plan]:
    """The micro-batches of a plan: as many as the rank with the most has, the last ones empty."""
    size = len(plan) if micro_batch is None else micro_batch
    if micro_batch is not None and micro_batch < 1:
        raise InvalidError(f"micro_batch is {micro_batch}, it must be 1 at least")
    rounds = math.ceil(len(plan) / size) if len(plan) else 0
    if agree is not None and ends is None:
        rounds = agree(rounds)
    at = 0
    while True:
        more = at < rounds and (ends is None or at == 0 or time.monotonic() < ends)
        if agree is not None and ends is not None:
            # Clocks differ: whether to go on is agreed each time.
            more = agree(int(more)) > 0
        if not more:
            return
        yield plan.part(at * size, (at + 1) * size)
        at += 1


def _merged(parts: list[Computed]) -> Computed:
    """Results of micro-batches, behind each other."""
    values = [part[0] for part in parts]
    begins = np.cumsum([0, *(len(part[0]) for part in parts)])
    offsets = [part[1][:-1] + begin for part, begin in zip(parts, begins, strict=False)]
    present = [np.ones(len(part[1]) - 1, np.bool_) if part[2] is None else part[2] for part in parts]
    rows = np.cumsum([0, *(len(part[1]) - 1 for part in parts)])
    failed = [(row + int(first), why) for part, first in zip(parts, rows, strict=False) for row, why in part[3]]
    end = np.array([begins[-1]], np.int64)
    return (
        np.concatenate(values) if values else np.empty(0, np.float32),
        np.concatenate([*offsets, end]).astype(np.int64),
        np.concatenate(present) if present else np.empty(0, np.bool_),
        failed,
    )


def _ask(
    column: str, step: int | None, stale: Stale, kind: Literal["raw", "processed"] | None
) -> tuple[str, str | None, int, bool]:
    if stale not in ("error", "allow"):
        raise InvalidError(f"stale is {stale!r}, it must be 'error' or 'allow'")
    if step is None:
        if native.column_name(column) == "old_logps" and stale == "error":
            raise InvalidError("whether old_logps are fresh depends on the trainer's step: give step=, or stale='allow'")
        step = 0
    return column, kind, _step(step), stale == "allow"


def _is_left(side: Side) -> bool:
    if side not in ("left", "right"):
        raise InvalidError(f"side is {side!r}, it must be 'left' or 'right'")
    return side == "left"


def _named(dtype: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if dtype == "float16":
        return values.view(np.float16)
    return values.view(bfloat16) if dtype == "bfloat16" else values


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


def _id(id: int | str) -> int:
    return native.id_from_key(id) if isinstance(id, str) else _step(id, "id")


def _number(value: int | None, what: str) -> int | None:
    return None if value is None else _step(value, what)


def _step(value: int, what: str = "step") -> int:
    """A whole number from 0 to 2**64 - 1."""
    try:
        number = value.__index__()
    except AttributeError:
        raise DTypeError(f"{what} is {value!r}, it must be a whole number") from None
    if not 0 <= number < 1 << 64:
        raise InvalidError(f"{what} is {number}, it must be 0 to 2**64 - 1")
    return number
