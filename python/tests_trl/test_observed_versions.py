"""Goal: whether old log-probs are needed is seen, not computed from step numbers.

Method: an epoch of 20 micro-steps with 3 of them to an optimizer step: its last optimizer step takes 2, and from then on no formula
over micro-steps knows when the weights change. The truth is looked up: are the weights those that generated?
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import tiny
import torch
from rollstore.trl._window import Window

ACCUMULATION = 3
SETTING = (ACCUMULATION, 2, 1)
RUN = {"steps": 12, "setting": SETTING, "questions": 20}
"""10 generations of 2 micro-steps an epoch; 12 optimizer steps go well into the second one."""


def changed_by_window(begin: int, micro_step: int) -> bool:
    """The window formula: a version is `micro_step // accumulation`."""
    return begin // ACCUMULATION != micro_step // ACCUMULATION


def changed_by_modulo(begin: int, micro_step: int) -> bool:
    """The modulo formula: the weights change behind each micro-step that fills an accumulation."""
    return any((step + 1) % ACCUMULATION == 0 for step in range(begin, micro_step))


class Watched(tiny.Stored):
    """Looks up at each micro-step whether the weights are those that generated."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.seen: list[tuple[int, int, bool, bool]] = []
        super().__init__(*args, **kwargs)

    def _weights(self) -> Any:
        return torch.cat([parameter.detach().flatten() for parameter in self.model.parameters()])

    def _generate(self, prompts: Any) -> Any:
        self.generated_at, self.generated_by = self._step, self._weights()
        return super()._generate(prompts)

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        assert self._window is not None
        changed = not torch.equal(self._weights(), self.generated_by)
        self.seen.append((self.generated_at, self._step, changed, self._window.is_stale))
        return super()._compute_loss(model, inputs)


def test_formulas_miss_a_weight_change_and_the_observed_version_does_not(tmp_path: Path) -> None:
    run = tiny.trainer(Watched, tmp_path, **RUN)
    run.train()
    assert any(changed for _, _, changed, _ in run.seen)
    for formula in (changed_by_window, changed_by_modulo):
        missed = [now for begin, now, changed, _ in run.seen if changed and not formula(begin, now)]
        assert missed and min(missed) >= 20, "all went well in the first epoch"
    assert all(observed == changed for _, _, changed, observed in run.seen)


def test_losses_differ_from_trl_by_the_formula_and_not_by_the_observed_version(tmp_path: Path) -> None:
    stock = tiny.trainer(tiny.Stock, tmp_path / "stock", **RUN)
    stock.train()
    stored = tiny.trainer(tiny.Stored, tmp_path / "stored", **RUN)
    stored.train()
    assert stored.losses == stock.losses

    class ByFormula(tiny.Stored):
        def _compute_loss(self, model: Any, inputs: Any) -> Any:
            assert self._window is not None
            # What it takes for a change that is none costs nothing; what it misses does.
            stale = self._window.updates > 0 and changed_by_window(self._step - self._step % self._window.length, self._step)
            with mock.patch.object(Window, "is_stale", property(lambda _: stale)):
                return super()._compute_loss(model, inputs)

    wrong = tiny.trainer(ByFormula, tmp_path / "wrong", **RUN)
    wrong.train()
    first = next(at for at, pair in enumerate(zip(wrong.losses, stock.losses, strict=True)) if pair[0] != pair[1])
    assert first >= 20, "equal in the first epoch, silently wrong after it"
