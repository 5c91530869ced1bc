"""Goal: a resume that cannot bring the rollouts back says so, and trains as TRL does; nothing is restored in part or in silence.

Method: a run is saved in the middle of a generation; then its rollouts are taken away, damaged, or the run is changed. The resumed
run must warn with the reason, and have the losses of TRL's own resume.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny
from rollstore.trl import RolloutsNotRestored
from transformers import TrainerCallback

SETTING = (2, 4, 1)
SAVED, STEPS = 3, 6


class Save(TrainerCallback):
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        control.should_save = state.global_step == SAVED


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a run with a checkpoint; 6 micro-steps of 4 a generation are behind it."""
    out = tmp_path_factory.mktemp("saved")
    tiny.trainer(tiny.Stored, out, steps=SAVED, setting=SETTING, callbacks=[Save()]).train()
    return out


def resumed(out: Path, kind: type[Any] = tiny.Stored, **options: Any) -> tuple[Any, list[str]]:
    """A run that resumes, and its warnings of ours."""
    run = tiny.trainer(kind, out, **{"steps": STEPS, "setting": SETTING, **options})
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run.train(resume_from_checkpoint=str(out / f"checkpoint-{SAVED}"))
    return run, [str(one.message) for one in seen if issubclass(one.category, RolloutsNotRestored)]


def rollouts(out: Path) -> Path:
    return out / f"checkpoint-{SAVED}" / "_rollouts" / "rank-00000"


def remove(out: Path) -> None:
    shutil.rmtree(rollouts(out))


def damage(out: Path) -> None:
    for manifest in rollouts(out).glob("MANIFEST*"):
        manifest.write_bytes(b"not a manifest")


def nothing(out: Path) -> None:
    pass


@pytest.mark.parametrize(
    ("change", "options", "reason"),
    [
        (remove, {}, "there are no rollouts at"),
        (damage, {}, "cannot be read"),
        (nothing, {"setting": (2, 2, 1)}, "steps_per_generation was 4, is 2"),
        (nothing, {"config": {"seed": 8}}, "seed was 7, is 8"),
    ],
)
def test_a_resume_that_cannot_restore_warns_and_trains_as_trl_does(
    change: Callable[[Path], None], options: dict[str, Any], reason: str, saved: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    shutil.copytree(saved, out)
    change(out)
    stock, _ = resumed(out, tiny.Stock, **options)
    run, said = resumed(out, **options)
    assert len(said) == 1 and reason in said[0] and "rank 0" in said[0]
    assert run.losses == stock.losses
    assert len(run.store) == len(run._window.ids), "nothing of before is left in the store"


def test_a_run_that_begins_anew_leaves_nothing_of_the_last_one(saved: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(saved, out)
    again = tiny.trainer(tiny.Stored, out, steps=SAVED, setting=SETTING)
    again.train()
    fresh = tiny.trainer(tiny.Stored, tmp_path / "fresh", steps=SAVED, setting=SETTING)
    fresh.train()
    assert again.losses == fresh.losses and len(again.store) == len(fresh.store)
    assert again.store.stats()["retired_rewound"] > 0


def test_a_lost_store_comes_back_from_the_checkpoint_alone(saved: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(saved, out)
    shutil.rmtree(out / "_rollouts")
    run, said = resumed(out)
    assert said == [] and SAVED not in run.generations


@pytest.mark.parametrize(("version", "fits"), [("1.10.0", True), ("1.16.0", True), ("2.0.0.dev0", True), ("1.9.3", False), ("0.24.0", False)])
def test_an_old_trl_is_refused_by_its_version(version: str, fits: bool) -> None:
    from rollstore.trl import _torch

    assert _torch.fits(version) == fits
    if not fits:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_torch.metadata, "version", lambda name: version)
            with pytest.raises(ImportError, match=f"needs trl 1.10 or newer, {version} is installed"):
                _torch.require_trl()
