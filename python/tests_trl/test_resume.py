"""Goal: a run that is killed and resumed in the middle of a generation goes on exactly as if nothing had happened.

Method: one run goes through; another saves in epoch 0 and epoch 2, each time in the middle of a generation, and is killed later. It is
resumed from both checkpoints; losses of micro-steps and gradient norms are compared as bits. TRL's own resume is shown beside it.
Generations take 8 micro-steps, 4 optimizer steps; an epoch has two of them.
"""

from __future__ import annotations

import os
import signal
import warnings
from pathlib import Path
from typing import Any

import children
import pytest
import tiny
from rollstore.trl import RolloutsNotRestored
from transformers import TrainerCallback

SETTING = (2, 4, 2)
STEPS, EARLY, LATE, KILLED = 21, 3, 19, 20
STEPS_PER_EPOCH = 8


class Plan(TrainerCallback):
    """Saves, stops and kills at given steps."""

    def __init__(self, save: tuple[int, ...] = (), stop: int | None = None, kill: int | None = None) -> None:
        self.save, self.stop, self.kill = save, stop, kill

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        control.should_save = state.global_step in self.save
        control.should_training_stop = state.global_step == self.stop

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.kill:
            os.kill(os.getpid(), signal.SIGKILL)


def train(kind: type[Any], out: Path, ranks: int, plan: Plan, resume: Path | None = None) -> dict[str, Any]:
    """Trains, and tells what was seen."""
    run = tiny.trainer(kind, out, steps=STEPS, setting=SETTING, questions=8 * ranks, callbacks=[plan])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RolloutsNotRestored)
        run.train(resume_from_checkpoint=None if resume is None else str(resume))
    return {"losses": run.losses, "norms": run.norms, "generations": run.generations, "epoch": run.state.epoch}


def since(seen: list[tuple[int, str]], begin: int, end: int) -> list[tuple[int, str]]:
    return [(step, value) for step, value in seen if begin <= step < end]


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_killed_run_goes_on_bit_for_bit_and_stock_does_not(ranks: int, tmp_path: Path) -> None:
    def runs(kind: type[Any], out: str, plan: Plan, resume: int | None = None, killed: bool = False) -> Any:
        checkpoint = None if resume is None else tmp_path / "run" / f"checkpoint-{resume}"
        results = children.run(train, kind, tmp_path / out, ranks, plan, checkpoint, ranks=ranks, killed=killed)
        return [results] if ranks == 1 else results

    through = runs(tiny.Stored, "through", Plan())
    runs(tiny.Stored, "run", Plan(save=(EARLY, LATE), kill=KILLED), killed=True)

    for begin, end in ((EARLY, 8), (LATE, STEPS)):
        resumed = runs(tiny.Stored, "run", Plan(stop=end), resume=begin)
        for rank in range(ranks):
            was, now = through[rank], resumed[rank]
            assert since(now["losses"], begin, end) == since(was["losses"], begin, end), (rank, begin)
            assert since(now["norms"], begin, end) == since(was["norms"], begin, end), (rank, begin)
            assert now["losses"][0][0] == begin
            assert begin not in now["generations"], "the generation in use came from the store"

    stock = runs(tiny.Stock, "stock", Plan(stop=8), resume=EARLY)
    for rank in range(ranks):
        assert EARLY in stock[rank]["generations"], "stock generates again, with the weights of today"
        assert since(stock[rank]["losses"], EARLY, 8) != since(through[rank]["losses"], EARLY, 8)
    assert through[0]["epoch"] > LATE / STEPS_PER_EPOCH > 2
