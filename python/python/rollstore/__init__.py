"""An embedded, crash-safe store for the rollouts of an RL run and their per-token log-probs.

It lives in the trainer's process, keeps on disk what generation paid for, knows which log-probs are out of their window or
stale, computes only those, and comes back after a crash or a resume exactly where the trainer is::

    import numpy as np
    import rollstore

    with rollstore.RolloutStore.open("run/rollouts", window=8) as store:
        tokens = [np.array([5, 6, 7]), np.array([8, 9])]
        store.insert([1, 2], created_step=100, completion_ids=tokens)

        def forward(plan):  # your model, for what is not fresh
            return [np.full(n, -0.5, np.float32) for n in plan.lens]

        served = store.get_or_compute([1, 2], step=100, fn=forward)
        served.values  # [2, 3], padded

Start with :class:`RolloutStore`. Exceptions are in :mod:`rollstore.errors`.
"""

from ._arrays import View
from ._batch import Batch, Committed, Reason
from ._insert import Provenance
from ._partials import OpenPartial, Partial
from ._plan import Applied, Budget, Plan
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
from ._rollstore import Rollout, column_name, id_from_key
from ._shards import Census, Made, VersionCount, merge, reshard, shards_of
from ._store import RolloutStore
from ._upkeep import verify
from ._weights import WeightUpdate
from .errors import (
    DamagedError,
    DTypeError,
    Error,
    FencedError,
    FullError,
    InternalError,
    InvalidError,
    LockedError,
    NotFoundError,
    PoisonedError,
    StoreIOError,
    StoreNotFoundError,
    TooNewError,
)

restore = RolloutStore.restore

__all__ = [
    "Applied",
    "Batch",
    "Budget",
    "Census",
    "Committed",
    "Compacted",
    "DTypeError",
    "DamagedError",
    "Error",
    "FencedError",
    "Finding",
    "Flat",
    "FullError",
    "InternalError",
    "InvalidError",
    "LockedError",
    "Made",
    "NotFoundError",
    "OpenPartial",
    "Padded",
    "Partial",
    "Plan",
    "PoisonedError",
    "Provenance",
    "Reason",
    "Recomputed",
    "Rollout",
    "RolloutStore",
    "Served",
    "SetAside",
    "Staleness",
    "StoreIOError",
    "StoreNotFoundError",
    "Swept",
    "TooNewError",
    "Verification",
    "VersionCount",
    "View",
    "WeightUpdate",
    "column_name",
    "id_from_key",
    "merge",
    "reshard",
    "restore",
    "shards_of",
    "verify",
]
