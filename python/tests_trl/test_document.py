"""Goal: the lines that docs/trl.md tells to change are all that is to be changed.

Method: its blocks are run as they stand once they are changed, with a model, a reward and a dataset of the names that they use; what
they leave to TRL's defaults is made small. The run is then resumed by the line that the page shows.
"""

from __future__ import annotations

import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import rollstore.trl
import tiny
import transformers
import trl

PAGE = Path(__file__).parents[2] / "docs" / "trl.md"
SMALL = {"use_cpu": True, "bf16": False, "max_steps": 6, "max_completion_length": 4, "report_to": [], "disable_tqdm": True}


def changed() -> list[str]:
    """The page's blocks as they read with the change."""
    blocks = re.findall(r"^```diff\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return ["\n".join(line[1:] for line in block.splitlines() if not line.startswith("-")) for block in blocks]


def test_the_lines_to_change_train_and_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trl, "GRPOConfig", partial(trl.GRPOConfig, **SMALL))
    monkeypatch.setattr(transformers.AutoProcessor, "from_pretrained", lambda *_, **__: tiny.tokenizer())
    program, _ = changed()
    program = program.replace("save_steps=50", "save_steps=4")
    names: dict[str, Any] = {"model": tiny.model(), "reward": tiny.reward, "dataset": tiny.prompts(16)}
    exec(program, names)
    trainer = names["trainer"]
    assert type(trainer) is rollstore.trl.StoreGRPOTrainer and trainer.state.global_step == 6
    assert len(trainer.store) > 0 and Path("run/_rollouts/rank-00000").is_dir()
    trainer.store.close()
    shutil.rmtree("run/checkpoint-6")  # a crash before the end

    train = re.search(r"again after a crash: (trainer\.train\(.*\))", program)
    assert train is not None, "the page says how to resume"
    resuming = program.replace("trainer.train()", train[1])
    names |= {"model": tiny.model()}
    exec(resuming, names)
    again = names["trainer"]
    assert again.state.global_step == 6 and Path("run/checkpoint-6").is_dir()
    assert again.store.cursor is not None, "it began with the rollouts of step 4"
    again.store.close()


def test_a_trainer_of_your_own_takes_the_mixin() -> None:
    _, program = changed()
    names: dict[str, Any] = {"StoreTrainerMixin": rollstore.trl.StoreTrainerMixin, "GRPOTrainer": trl.GRPOTrainer}
    exec(program + "\n    pass", names)
    assert names["MyTrainer"].__mro__[1] is rollstore.trl.StoreTrainerMixin
