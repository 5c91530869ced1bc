# The native half. Not for direct use: names and signatures here change without notice.

import os
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt

from ._arrays import View

_U64: TypeAlias = npt.NDArray[np.uint64]
_I64: TypeAlias = npt.NDArray[np.int64]
_U8: TypeAlias = npt.NDArray[np.uint8]
_Bools: TypeAlias = npt.NDArray[np.bool_]
_Path: TypeAlias = str | os.PathLike[str]
_Flags: TypeAlias = tuple[_Bools, _Bools, _Bools, _Bools, _I64, _I64]
_Ask: TypeAlias = tuple[str, str | None, int, bool]
_Budget: TypeAlias = tuple[int | None, int | None, float | None]
_Computed: TypeAlias = tuple[npt.NDArray[np.float32], _I64, _Bools | None, list[tuple[int, str]]]
_Spans: TypeAlias = list[tuple[int, int]]
_Partial: TypeAlias = tuple[
    int, int, int | None, str | None, npt.NDArray[np.uint32] | None, npt.NDArray[np.uint32], npt.NDArray[np.float32], _Spans
]
_Finding: TypeAlias = tuple[_Path, int, str, str, list[int]]
Verified: TypeAlias = tuple[bool, bool, int, int, int, list[_Finding]]

class OpenArgs(TypedDict):
    window: int | None
    max_version_lag: int | None
    step_skew: int | None
    step_jump_max: int | None
    retire_after: int | None
    segment_bytes: int | None
    quota_bytes: int | None
    max_delay: float | None
    background_compaction: bool
    run_identity: bytes | None
    resume_step: int | None
    create: bool
    read_only: bool
    reads: str
    recheck_always: bool

class InsertArgs(TypedDict):
    ids: _U64
    keys: list[str] | None
    created_steps: _U64
    group_ids: _U64 | None
    rewards: npt.NDArray[np.float32] | None
    advantages: npt.NDArray[np.float32] | None
    old_versions: _U64 | None
    kl_ref_versions: _U64 | None
    metadata: list[bytes] | None
    version_spans: list[list[tuple[int, int]]] | None
    provenance: list[tuple[str, str, bool, float, float, int]]
    columns: list[tuple[str, str, _U8, _I64, _Bools | None]]

class Rollout:
    """A rollout as of the call that returned it.

    Arrays are views into the store's files: read-only, without a copy, valid for as long as they live. A column that the rollout
    does not have raises :class:`rollstore.NotFoundError`, damaged bytes :class:`rollstore.DamagedError`.
    """

    @property
    def id(self) -> int:
        """The rollout's id."""
    @property
    def created_step(self) -> int:
        """The step at which it was sampled; never changes."""
    @property
    def born_step(self) -> int:
        """The step from which its old logps count as fresh."""
    @property
    def ref_version(self) -> int:
        """The version of the weights that made the old logps; while they are missing, the one current at the insert."""
    @property
    def token_count(self) -> int:
        """Prompt and completion tokens: what a forward pass costs."""
    @property
    def group_id(self) -> int | None:
        """The group of rollouts that share a prompt."""
    @property
    def reward(self) -> float | None:
        """The reward of the completion."""
    @property
    def advantage(self) -> float | None:
        """The advantage of the completion."""
    @property
    def key(self) -> str | None:
        """The string key, for a rollout that was inserted by one."""
    @property
    def metadata(self) -> bytes:
        """The caller's own bytes; empty where none were given."""
    @property
    def version_spans(self) -> list[tuple[int, int]]:
        """The versions that the sampler went through, each with its number of tokens."""
    @property
    def prompt_ids(self) -> View:
        """Token ids of the prompt. Shape ``[prompt tokens]``, uint32."""
    @property
    def completion_ids(self) -> View:
        """Token ids of the completion. Shape ``[tokens]``, uint32."""
    @property
    def loss_mask(self) -> View:
        """1 where a completion token counts in the loss. Shape ``[tokens]``, uint8."""
    @property
    def old_logps(self) -> View:
        """Log-probs under the old policy, in nats. Shape ``[tokens]``, float32. They may be stale: see :meth:`staleness`."""
    @property
    def sampler_logps(self) -> View:
        """Log-probs that the inference engine reported, in nats. Shape ``[tokens]``, float32; NaN = not reported."""
    @property
    def kl_ref_logps(self) -> View:
        """Log-probs under the KL reference model, in nats. Shape ``[tokens]``, float32."""
    @property
    def behaviour_logps(self) -> View:
        """Log-probs under the policy that sampled: the sampler's, or else the first old logps. Shape ``[tokens]``, float32."""
    def __getitem__(self, column: str) -> View:
        """The values of a column, by any of its names. Shape ``[values]``."""
    def columns(self) -> list[tuple[str, str, int, int | None]]:
        """Name, type, number of values and version (``None`` where it has none) of each column."""
    def provenance(self, column: str) -> tuple[str, bool, float, float, int] | None:
        """Engine, whether processed, temperature, top-p and top-k of a column, where they were given."""
    def __contains__(self, column: str) -> bool:
        """Whether the rollout has a column, by any of its names."""
    def is_fresh(self, step: int) -> bool:
        """Whether the old logps may be used at ``step`` as they are."""
    def writable(self, lent: _U8) -> _U8: ...

class Plan:
    @property
    def ids(self) -> _U64: ...
    @property
    def positions(self) -> _I64: ...
    @property
    def step(self) -> int: ...
    @property
    def ref_version(self) -> int: ...
    @property
    def token_count(self) -> int: ...
    @property
    def damaged(self) -> _U64: ...
    def lens(self) -> _I64: ...
    def rollouts(self) -> list[Rollout]: ...
    def __len__(self) -> int: ...
    def part(self, start: int, end: int) -> Plan: ...
    def made_with(self, version: int) -> Plan: ...

class WeightUpdate:
    def finish(self) -> int: ...

class Batch:
    def __new__(cls) -> Batch: ...
    def insert(self, rows: InsertArgs, how: Literal["insert", "replace", "begin", "append", "finish"]) -> None: ...
    def abandon_partials(self, ids: _U64) -> None: ...
    def retire(self, ids: _U64, reason: str) -> None: ...
    def retire_created_before(self, step: int, reason: str) -> None: ...
    def retire_version_before(self, version: int, reason: str) -> None: ...
    def retire_groups(self, groups: _U64, reason: str) -> None: ...
    def apply(self, plan: Plan, values: _Computed) -> None: ...
    def advance_ref_version(self, step: int, label: int | None = None) -> None: ...
    def advance_kl_ref_version(self, label: int | None = None) -> None: ...
    def cursor(self, cursor: bytes) -> None: ...
    def __len__(self) -> int: ...
    def commit(self, store: Store) -> tuple[int, int, list[tuple[int, int, int]], int]: ...

class Store:
    @staticmethod
    def open(path: _Path, args: OpenArgs) -> Store: ...
    @property
    def path(self) -> os.PathLike[str]: ...
    @property
    def window(self) -> int: ...
    @property
    def max_version_lag(self) -> int: ...
    def ref_version(self) -> int: ...
    def kl_ref_version(self) -> int: ...
    def ref_version_of(self, label: int) -> int | None: ...
    def clock(self) -> int | None: ...
    def cursor(self) -> bytes | None: ...
    def __len__(self) -> int: ...
    def get(self, id: int) -> Rollout | None: ...
    def get_many(self, ids: _U64) -> list[Rollout | None]: ...
    def staleness(self, ids: _U64, step: int) -> _Flags: ...
    def scan(self, question: str, of: int) -> _U64: ...
    def count(self, question: str, of: int) -> int: ...
    def plan_for(self, ids: _U64, step: int) -> Plan: ...
    def plan_kl_ref_for(self, ids: _U64, step: int) -> Plan: ...
    def plan_due(self, step: int, budget: _Budget) -> Plan: ...
    def advance_ref_version(self, step: int, label: int | None = None) -> int: ...
    def advance_kl_ref_version(self, label: int | None = None) -> int: ...
    def begin_weight_update(self, step: int) -> WeightUpdate: ...
    def rewind(self, step: int, keep: bool) -> int: ...
    def allocate_ids(self, count: int) -> _U64: ...
    def checkpoint(self, dir: _Path) -> int: ...
    def compact(self, bytes: int | None) -> tuple[int, int, bool]: ...
    def verify(self) -> Verified: ...
    def sync(self) -> None: ...
    def durable_lsn(self) -> int: ...
    def wait_durable(self, lsn: int) -> None: ...
    def diagnose(self, step: int) -> str: ...
    def would_recompute(self, step: int, window: int, max_version_lag: int) -> int: ...
    def close(self) -> None: ...
    def stats(self) -> tuple[dict[str, int], list[str]]: ...
    def partials(self) -> list[tuple[int, int, int, _Spans, bool]]: ...
    def read_partials(self, ids: _U64) -> list[_Partial | None]: ...
    def abandon_partials(self, ids: _U64) -> int: ...
    def gather_into(self, ids: _U64, ask: _Ask, out: _U8, shape: tuple[str, int], pad: tuple[float, bool]) -> _I64: ...
    def gather_out(self, ids: _U64, ask: _Ask, out: npt.NDArray[Any], pad: tuple[float, bool]) -> _I64 | None: ...
    def gather_padded(
        self, ids: _U64, ask: _Ask, pad: tuple[float, bool]
    ) -> tuple[str, npt.NDArray[Any], int, _I64]: ...
    def gather_flat(self, ids: _U64, ask: _Ask) -> tuple[str, npt.NDArray[Any], _U64]: ...
    def get_or_compute(
        self, ids: _U64, step: int, function: Callable[[Plan], _Computed], pad: float, left: bool
    ) -> tuple[npt.NDArray[np.float32], int, _I64, _U8]: ...
    def sweep(
        self,
        name: str,
        query: tuple[str, int],
        order: str,
        kl_ref: bool,
        complete_groups: int,
        micro_batch: int,
        retries: int,
        step: int,
        budget: _Budget,
        function: Callable[[Plan], _Computed],
    ) -> tuple[int, int, int, int, list[tuple[int, int, bool, str]], bool]: ...
    def forget_sweep(self, name: str) -> bool: ...

def id_from_key(key: str) -> int:
    """The id that stands for a string key."""
def column_name(name: str) -> str:
    """Our name of a column, whichever of its names it is asked by."""
def restore(checkpoint: _Path, dir: _Path) -> None: ...
def verify(dir: _Path) -> Verified: ...
def run_cli(started_by: list[str], arguments: list[str]) -> int: ...
