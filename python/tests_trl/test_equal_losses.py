"""Goal: training with the store is TRL's, bit for bit, and runs the model less often.

Method: the same run with TRL's trainer and with the store's, for settings in which a generation and an optimizer step fit into each
other in every way. Losses of all micro-steps and gradient norms are compared as bits; forwards for old log-probs are counted.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny

STEPS = 12

SETTINGS = {
    (4, 4, 1): 0,
    (4, 2, 1): 0,
    (4, 2, 2): 0,
    (8, 4, 2): 0,
    (8, 4, 1): 0,
    (4, 1, 4): 0,
    (2, 4, 1): 12,
    (3, 2, 1): 6,
    (3, 4, 1): 18,
    (2, 4, 2): 6,
    (4, 4, 2): 0,
    (6, 4, 1): 12,
    (5, 4, 1): 18,
}
"""By (gradient accumulation, steps per generation, iterations), the most forwards of a micro-batch that the store may need."""

STOCK = {(2, 4, 1): 24, (3, 2, 1): 36, (3, 4, 1): 36, (2, 4, 2): 12, (4, 4, 2): 24, (6, 4, 1): 72, (5, 4, 1): 60}
"""Forwards that TRL runs, where it runs any: those that this version of it is known for."""


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_losses_are_those_of_trl_bit_for_bit_with_fewer_forwards(setting: tuple[int, int, int], tmp_path: Path) -> None:
    stock = tiny.trainer(tiny.Stock, tmp_path / "stock", steps=STEPS, setting=setting)
    stock.train()
    stored = tiny.trainer(tiny.Stored, tmp_path / "stored", steps=STEPS, setting=setting)
    stored.train()

    assert len(stock.norms) == STEPS
    assert len({loss for _, loss in stock.losses}) > STEPS // 2, "it learns: losses differ"
    assert stored.losses == stock.losses
    assert stored.norms == stock.norms
    assert stored.generations == stock.generations

    assert stock.old_forwards == STOCK.get(setting, 0)
    assert stored.old_forwards == stored.old_logps_forwards <= SETTINGS[setting]


def test_trl_scores_every_micro_step_of_an_epoch_that_ends_within_an_optimizer_step(tmp_path: Path) -> None:
    # 28 micro-steps an epoch: its last optimizer step takes 3 of them instead of 5, and 12 steps take 56 instead of 60.
    forwards = {}
    for kind in (tiny.Stock, tiny.Stored):
        run = tiny.trainer(kind, tmp_path / kind.__name__, steps=STEPS, setting=(5, 4, 1), questions=28)
        run.train()
        forwards[kind], losses = run.old_forwards, run.losses
        assert len(losses) == 56
    assert forwards[tiny.Stock] == 56 and forwards[tiny.Stored] <= 18
