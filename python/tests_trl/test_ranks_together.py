"""Goal: ranks restore together, or none does; one that lost its rollouts does not leave the others with theirs.

Method: two ranks save in the middle of a generation, in the second epoch; the rollouts of one are removed, or cannot be brought back
because another run's store lies in their place. Both must warn and name it, and train as TRL's own resume does: with the prompts in the same order, so that nothing was taken over in part.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import children
import pytest
import tiny
from rollstore import RolloutStore
from rollstore.trl import RolloutsNotRestored
from transformers import TrainerCallback

SETTING = (2, 4, 2)
SAVED, STEPS = 11, 13
"""An epoch has 8 optimizer steps, a generation 4."""


class Save(TrainerCallback):
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        control.should_save = state.global_step == SAVED


def train(kind: type[Any], out: Path, steps: int, resume: bool) -> tuple[list[tuple[int, str]], list[str]]:
    run = tiny.trainer(kind, out, steps=steps, setting=SETTING, questions=16, callbacks=[Save()])
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run.train(resume_from_checkpoint=str(out / f"checkpoint-{SAVED}") if resume else None)
    return run.losses, [str(one.message) for one in seen if issubclass(one.category, RolloutsNotRestored)]


def lost(out: Path) -> None:
    shutil.rmtree(out / f"checkpoint-{SAVED}" / "_rollouts" / "rank-00001")


def foreign(out: Path) -> None:
    shutil.rmtree(out / "_rollouts" / "rank-00001")
    RolloutStore.open(out / "_rollouts" / "rank-00001", window=1).close()


@pytest.mark.parametrize(("change", "reason"), [(lost, "there are no rollouts at"), (foreign, "")])
def test_one_rank_that_cannot_restore_keeps_all_from_it(change: Callable[[Path], None], reason: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    children.run(train, tiny.Stored, out, SAVED, False, ranks=2)
    change(out)
    stock = children.run(train, tiny.Stock, out, STEPS, True, ranks=2)
    stored = children.run(train, tiny.Stored, out, STEPS, True, ranks=2)
    for rank in range(2):
        losses, said = stored[rank]
        assert len(said) == 1 and f"rank 1: {reason}" in said[0]
        assert losses == stock[rank][0]
