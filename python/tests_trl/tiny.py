"""A model of 20,000 parameters, a task and a run of GRPO, made on the spot: no hub, and every seed fixed."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

os.environ.update(
    HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", TRL_EXPERIMENTAL_SILENCE="1", CUDA_VISIBLE_DEVICES=""
)

import torch
import transformers
from datasets import Dataset
from rollstore.trl import StoreTrainerMixin
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer

torch.set_num_threads(1)

SPECIAL = ["<pad>", "<eos>", "<unk>"]
CHARS = "0123456789="
SEED = 7


def tokenizer() -> PreTrainedTokenizerFast:
    """One token a character."""
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *CHARS])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    made.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def model(seed: int = SEED) -> Qwen2ForCausalLM:
    """A model that knows nothing: completions end at random, so that their lengths differ."""
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(SPECIAL) + len(CHARS),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    return Qwen2ForCausalLM(config)


def reward(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
    """How many of the characters are the digit that the prompt ends with."""
    return [text.count(prompt[-2]) / max(len(text), 1) for prompt, text in zip(prompts, completions, strict=True)]


def prompts(count: int) -> Dataset:
    """Questions of different lengths."""
    draw = random.Random(SEED)
    texts = ["".join(draw.choice("0123456789") for _ in range(draw.randint(1, 6))) + "=" for _ in range(count)]
    return Dataset.from_dict({"prompt": texts})


class Recording:
    """Keeps what training did, exactly: the loss of each micro-step, and the gradient norm of each optimizer step."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.losses: list[tuple[int, str]] = []
        self.norms: list[tuple[int, str]] = []
        self.generations: list[int] = []
        self.old_forwards = 0
        super().__init__(*args, **kwargs)

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        loss = super().training_step(*args, **kwargs)  # type: ignore[misc]
        self.losses.append((self.state.global_step, loss.item().hex()))  # type: ignore[attr-defined]
        return loss

    def _get_grad_norm(self, *args: Any, **kwargs: Any) -> Any:
        norm = super()._get_grad_norm(*args, **kwargs)  # type: ignore[misc]
        self.norms.append((self.state.global_step, float(norm).hex()))  # type: ignore[attr-defined]
        return norm

    def _generate(self, prompts: Any) -> Any:
        self.generations.append(self.state.global_step)  # type: ignore[attr-defined]
        return super()._generate(prompts)  # type: ignore[misc]

    def _get_per_token_logps_and_entropies(self, model: Any, input_ids: Any, *args: Any, **kwargs: Any) -> Any:
        if model is self.model and not torch.is_grad_enabled():  # type: ignore[attr-defined]
            # Counted in micro-batches: TRL scores a whole generation at once, the store slice by slice.
            self.old_forwards += input_ids.size(0) // self.args.per_device_train_batch_size  # type: ignore[attr-defined]
        return super()._get_per_token_logps_and_entropies(model, input_ids, *args, **kwargs)  # type: ignore[misc]


class Stock(Recording, GRPOTrainer):
    """TRL's own trainer, watched."""


class Stored(StoreTrainerMixin, Recording, GRPOTrainer):
    """The trainer with a store, watched below the store: forwards that it saves are not seen."""


def trainer(
    kind: type[Any],
    out: str | Path,
    *,
    steps: int = 12,
    setting: tuple[int, int, int] = (4, 4, 1),
    questions: int = 64,
    config: dict[str, Any] | None = None,
    **kwargs: Any,
) -> Any:
    """A run. ``setting`` is (gradient accumulation, steps per generation, iterations)."""
    accumulation, slices, iterations = setting
    args = GRPOConfig(
        output_dir=str(out),
        use_cpu=True,
        bf16=False,
        fp16=False,
        gradient_checkpointing=False,
        max_steps=steps,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=accumulation,
        steps_per_generation=slices,
        num_iterations=iterations,
        num_generations=4,
        max_completion_length=8,
        learning_rate=1e-2,
        lr_scheduler_type="constant",
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
        **{"seed": SEED, "save_strategy": "no", **(config or {})},
    )
    made = kind(
        model=kwargs.pop("model", None) or model(),
        reward_funcs=kwargs.pop("reward_funcs", reward),
        args=args,
        train_dataset=prompts(questions),
        processing_class=tokenizer(),
        **kwargs,
    )
    made.remove_callback(transformers.PrinterCallback)
    return made
