"""Goal: runs beyond the plain one train as TRL's do, and resume exactly: sampler log-probs with NaN, truncated completions that are
masked, a KL reference that follows the policy, adapters.

Method: each is trained by TRL's trainer and the store's; losses are compared as bits. Then a run is saved in the middle of a
generation, resumed, and its batch is compared with the one that was in use.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
import trl
from transformers import TrainerCallback
from trl.trainer.callbacks import SyncRefModelCallback

SETTING = (2, 4, 2)
SAVED, STEPS = 3, 8
CORRECTS_NAN = tuple(map(int, trl.__version__.split(".")[:2])) >= (1, 16)
"""Before, TRL's correction makes the loss NaN where the sampler reported none."""


def sampler(prompts: list[str], trainer: Any) -> dict[str, Any]:
    """Completions of an engine that reports log-probs, and sometimes none (NaN)."""
    draw = torch.Generator().manual_seed(1000 + trainer._step)
    tokens = tiny.tokenizer()
    completions = [torch.randint(3, 13, (int(n),), generator=draw).tolist() for n in torch.randint(1, 9, (len(prompts),), generator=draw)]
    logps = [(-torch.rand(len(completion), generator=draw)).tolist() for completion in completions]
    if CORRECTS_NAN or not trainer.use_vllm:
        for row in logps[::3]:
            row[-1] = float("nan")
    return {"prompt_ids": tokens(prompts)["input_ids"], "completion_ids": completions, "logprobs": logps}


def adapters() -> Any:
    from peft import LoraConfig

    return LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")


class Corrected:
    """The importance-sampling correction of vLLM, without vLLM: the sampler stands in for it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.use_vllm = True

    def _generate(self, prompts: Any) -> Any:
        # There is no engine whose weights could be synchronised.
        self._last_loaded_step = self.state.global_step  # type: ignore[attr-defined]
        return super()._generate(prompts)  # type: ignore[misc]


class CorrectedStock(Corrected, tiny.Stock):
    pass


class CorrectedStored(tiny.StoreTrainerMixin, Corrected, tiny.Recording, tiny.GRPOTrainer):
    pass


KINDS: dict[str, tuple[type[Any], type[Any], Any]] = {
    "sampler": (tiny.Stock, tiny.Stored, lambda: {"rollout_func": sampler}),
    "correction": (
        CorrectedStock,
        CorrectedStored,
        lambda: {"rollout_func": sampler, "config": {"vllm_importance_sampling_correction": True}},
    ),
    "truncated": (tiny.Stock, tiny.Stored, lambda: {"config": {"mask_truncated_completions": True}}),
    "reference": (tiny.Stock, tiny.Stored, lambda: {"config": {"beta": 0.1, "sync_ref_model": True, "ref_model_sync_steps": 3}}),
    "adapters": (tiny.Stock, tiny.Stored, lambda: {"config": {"beta": 0.1}, "peft_config": adapters()}),
}


class Look(TrainerCallback):
    """Saves, and looks at the generation in use at that moment."""

    def __init__(self) -> None:
        self.trainer: Any = None
        self.batches: list[dict[str, Any]] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        control.should_save = state.global_step == SAVED

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.batches = [dict(batch) for batch in self.trainer._buffered_inputs]


def run(kind: type[Any], out: Path, options: Any, **more: Any) -> Any:
    given = options()
    if given.get("config", {}).get("beta"):
        # TRL loads the reference by the model's name: here it has one on disk.
        folder = out.parent / "base"
        if not folder.exists():
            tiny.model().save_pretrained(folder)
        given["model"] = str(folder)
        given["config"] = given["config"] | {"model_init_kwargs": {"dtype": "float32"}}
    torch.manual_seed(tiny.SEED)  # adapters are made of it
    return tiny.trainer(kind, out, steps=STEPS, setting=SETTING, **{**given, **more})


@pytest.mark.parametrize("name", KINDS)
def test_it_trains_as_trl_and_restores_the_batch_in_use_bit_for_bit(name: str, tmp_path: Path) -> None:
    stock_kind, stored_kind, options = KINDS[name]
    stock = run(stock_kind, tmp_path / "stock", options)
    stock.train()
    look = Look()
    stored = run(stored_kind, tmp_path / "stored", options, callbacks=[look])
    look.trainer = stored
    stored.train()
    assert len({loss for _, loss in stock.losses}) > 2
    assert stored.losses == stock.losses and stored.norms == stock.norms

    resumed = run(stored_kind, tmp_path / "stored", options)
    seen: list[list[dict[str, Any]]] = []
    take_over = resumed._take_over
    resumed._take_over = lambda saved, buffered: (seen.append(buffered), take_over(saved, buffered))
    stored.store.close()
    resumed.train(resume_from_checkpoint=str(tmp_path / "stored" / f"checkpoint-{SAVED}"))
    (batches,) = seen
    for was, now in zip(look.batches, batches, strict=True):
        assert was.keys() == now.keys()
        for key, value in was.items():
            assert now[key].dtype == value.dtype and now[key].shape == value.shape, key
            if key.endswith("per_token_logps") and name != "truncated":
                # Older TRL leaves there what the model says of padding; no loss looks at it, and the store does not keep it.
                value = torch.where(was["completion_mask"].bool(), value, 0.0)
            assert _bits(now[key]) == _bits(value), key
    if name == "sampler":
        assert any(torch.isnan(batch["sampling_per_token_logps"]).any() for batch in batches)
    if name == "correction":
        assert "importance_sampling_ratio" in batches[0] and "old_per_token_logps" in batches[0]
    if name == "truncated":
        assert any((batch["completion_mask"].sum(1) == 0).any() for batch in batches)
    if name != "reference":
        # The weights of a reference that was synchronised are in no checkpoint of TRL's.
        since = [loss for loss in stored.losses if loss[0] >= SAVED]
        assert resumed.losses == since


def test_reference_log_probs_carry_the_version_of_the_reference(tmp_path: Path) -> None:
    _, kind, options = KINDS["reference"]
    versions: list[tuple[int, int]] = []

    class Versions(TrainerCallback):
        def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            store = trained.store
            rollout = store[trained._window.ids[0]]
            of = {name: version for name, _, _, version in rollout.columns()}
            versions.append((store.kl_ref_version, of["kl_ref_logps"]))

    trained = run(kind, tmp_path / "run", options, callbacks=[Versions()])
    assert any(isinstance(callback, SyncRefModelCallback) for callback in trained.callback_handler.callbacks)
    trained.train()
    # It is synchronised behind steps 3 and 6; a generation of 4 steps keeps the log-probs that it was made with.
    assert versions == [(0, 0), (0, 0), (0, 0), (1, 0), (1, 1), (1, 1), (2, 1), (2, 1)]


def _bits(tensor: Any) -> bytes:
    return tensor.contiguous().cpu().numpy().tobytes()
