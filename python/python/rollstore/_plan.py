"""Plans: what must be computed, and the forms in which results come back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from . import _rollstore as native
from ._arrays import I64, U64, Bools, id_array, is_tensor, kept_of, rows_of
from .errors import InvalidError

Computed = tuple[npt.NDArray[np.float32], I64, "Bools | None", list[tuple[int, str]]]
"""Results as the native half takes them."""


class Applied(NamedTuple):
    """What became of a plan's results."""

    computed: int
    """Results that were stored."""
    dropped: int
    """Results that came late: the rollout was retired, replaced or computed by someone else meanwhile."""
    declined: int
    """Rollouts of the plan without a result."""


class Budget(NamedTuple):
    """Limits on one call's recompute: of those given, the one that is reached first counts; none means no limit. Where a budget
    is asked for, a number stands for rollouts.

    None is exceeded, except by the first rollout: it is always handed out unless a limit is 0, so that a huge one cannot starve.
    """

    rollouts: int | None = None
    """So many rollouts."""
    tokens: int | None = None
    """So many tokens, prompt and completion: what a forward pass costs."""
    seconds: float | None = None
    """So many seconds, looked at between micro-batches."""


def budget_of(budget: Budget | int | None) -> Budget:
    """The budget that an argument stands for."""
    if budget is None:
        return Budget()
    if isinstance(budget, int):
        budget = Budget(rollouts=budget)
    if any(limit is not None and limit < 0 for limit in budget):
        raise InvalidError(f"{budget} has a negative limit")
    return budget


class Plan:
    """Rollouts whose log-probs must be computed, made by :meth:`RolloutStore.plan_for` and :meth:`RolloutStore.plan_due`.

    ``len(plan)`` rows are to be computed. Results go to :meth:`RolloutStore.apply`, in the order of :attr:`ids`. A plan belongs
    to the open store that made it: after a reopen, restore or rewind its results are dropped.
    """

    __slots__ = ("_plan",)

    def __init__(self, plan: native.Plan) -> None:
        self._plan = plan

    @property
    def ids(self) -> U64:
        """The rollouts to compute. Shape ``[len(plan)]``."""
        return self._plan.ids

    @property
    def positions(self) -> I64:
        """Rows of the caller's batch, for a plan of given ids. Shape ``[len(plan)]``: ``batch[plan.positions]``."""
        return self._plan.positions

    @property
    def lens(self) -> I64:
        """The number of values that each result must have. Shape ``[len(plan)]``; -1 where nothing tells it."""
        return self._plan.lens()

    @property
    def ref_version(self) -> int:
        """The version that results are recorded under: the one current when the plan was made."""
        return self._plan.ref_version

    @property
    def step(self) -> int:
        """The step that the plan was made at: the born step of its results."""
        return self._plan.step

    @property
    def token_count(self) -> int:
        """Prompt and completion tokens of all its rollouts."""
        return self._plan.token_count

    @property
    def damaged(self) -> U64:
        """Rollouts that are due but cannot be read; they are not part of the plan."""
        return self._plan.damaged

    @property
    def rollouts(self) -> list[native.Rollout]:
        """Views of the rollouts, in the order of :attr:`ids`: token ids to run the model on."""
        return self._plan.rollouts()

    def part(self, start: int, end: int) -> Plan:
        """The rows ``start`` to ``end`` as a plan of their own; results of parts are applied one by one."""
        return Plan(self._plan.part(start, end))

    def made_with(self, version: int) -> Plan:
        """The plan for results of another version: of the weights really used, where a worker is behind."""
        return Plan(self._plan.made_with(version))

    def __len__(self) -> int:
        return len(self._plan)

    def __repr__(self) -> str:
        return f"<Plan of {len(self)} rollouts at step {self.step}, version {self.ref_version}>"


def computed_of(plan: Plan, values: Any) -> Computed:
    """Results of a plan, in any form that :meth:`RolloutStore.apply` takes."""
    count = len(plan)
    failed: list[tuple[int, str]] = []
    if isinstance(values, Mapping):
        values = _by_id(plan, cast("Mapping[Any, Any]", values))
    if values is None:
        values = [None] * count
    kept: I64 | Bools | None = None
    if _is_padded(values):
        kept = plan.lens
        if kept.size and int(kept.min()) < 0:
            row = int(np.argmax(kept < 0))
            raise InvalidError("nothing tells how long the result is; give a list of arrays", row=row)
    elif isinstance(values, tuple) and len(cast("tuple[Any, ...]", values)) == 2 and _is_padded(cast("tuple[Any, Any]", values)[0]):
        values, lengths = cast("tuple[Any, Any]", values)
        kept = kept_of(lengths, count, "lengths")
    elif not isinstance(values, tuple) and not is_tensor(values) and not isinstance(values, np.ndarray):
        results: list[Any] = list(cast("Iterable[Any]", values))
        failed = [(row, str(result)) for row, result in enumerate(results) if isinstance(result, BaseException)]
        values = [None if isinstance(result, BaseException) else result for result in results]
    rows = rows_of(values, count, "float32", "results", kept)
    return cast("npt.NDArray[np.float32]", rows.values), rows.offsets, rows.present, failed


def _is_padded(values: Any) -> bool:
    return (is_tensor(values) or isinstance(values, np.ndarray)) and cast("Any", values).ndim == 2


def _by_id(plan: Plan, values: Mapping[Any, Any]) -> list[Any]:
    left = dict(zip((int(id) for id in id_array(list(values))), values.values(), strict=True))
    rows = [left.pop(int(id), None) for id in plan.ids]
    if left:
        id = next(iter(left))
        raise InvalidError(f"rollout {id} has a result and is not part of the plan", id=id)
    return rows


Agree = Callable[[int], int]
"""The greatest of the numbers that the ranks give."""


def agree_of(agree: Any) -> Agree | None:
    """The function that an ``agree=`` argument stands for: itself, or the maximum over a torch process group."""
    if agree is None or callable(agree):
        return cast("Agree | None", agree)
    import torch as torch_module  # pyright: ignore[reportMissingImports]
    import torch.distributed as torch_distributed  # pyright: ignore[reportMissingImports]

    torch: Any = torch_module
    dist: Any = torch_distributed

    def greatest(number: int) -> int:
        device: Any = "cpu"
        if dist.get_backend(agree) == "nccl":
            device = torch.device("cuda", torch.cuda.current_device())
        numbers = torch.tensor([number], dtype=torch.int64, device=device)
        dist.all_reduce(numbers, op=dist.ReduceOp.MAX, group=agree)
        return int(numbers.item())

    return greatest
