"""GRPO with TRL and a store, on a laptop's CPU, without any hub, in well under two minutes: learns, is killed, goes on bit for bit.

The model (20,000 parameters) and the task are made on the spot: after a prompt like ``"37="``, write even digits. A second process
trains, and kills itself in the middle of a generation. The first resumes from its checkpoint.

    pip install ./python trl
    python python/examples/trl/quickstart.py
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1", CUDA_VISIBLE_DEVICES="")

import torch
import transformers
from datasets import Dataset
from rollstore.trl import StoreGRPOTrainer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from trl import GRPOConfig

VOCABULARY = ["<pad>", "<eos>", "<unk>", *"0123456789="]
STEPS, SAVED_EVERY, KILLED_AT = 42, 7, 26


def tokenizer() -> Any:
    """One token a character."""
    words = models.WordLevel({token: number for number, token in enumerate(VOCABULARY)}, unk_token="<unk>")
    made = Tokenizer(words)
    made.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    made.decoder = decoders.Fuse()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def model() -> Any:
    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        vocab_size=len(VOCABULARY),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    return transformers.Qwen2ForCausalLM(config)


def reward(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
    """The share of characters that are even digits."""
    return [sum(text.count(digit) for digit in "02468") / max(len(text), 1) for text in completions]


def questions() -> Any:
    draw = random.Random(0)
    return Dataset.from_dict({"prompt": [f"{draw.randrange(10, 99)}=" for _ in range(64)]})


class Killed(transformers.TrainerCallback):
    """No time to save anything."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == KILLED_AT:
            print(f"step {KILLED_AT}: killed", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)


def trainer(out: Path) -> StoreGRPOTrainer:
    args = GRPOConfig(
        output_dir=str(out),
        use_cpu=True,
        bf16=False,
        max_steps=STEPS,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
        steps_per_generation=4,
        num_generations=8,
        max_completion_length=8,
        learning_rate=5e-3,
        save_steps=SAVED_EVERY,
        logging_steps=SAVED_EVERY,
        report_to=[],
        disable_tqdm=True,
    )
    made = StoreGRPOTrainer(
        model=model(), reward_funcs=reward, args=args, train_dataset=questions(), processing_class=tokenizer()
    )
    made.remove_callback(transformers.PrinterCallback)
    return made


def rewards(run: StoreGRPOTrainer) -> dict[int, float]:
    return {entry["step"]: entry["reward"] for entry in run.state.log_history if "reward" in entry}


def main(folder: Path) -> None:
    through = trainer(folder / "through")
    through.train()

    child = os.fork()
    if child == 0:
        killed = trainer(folder / "killed")
        killed.add_callback(Killed())
        killed.train()
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "it was killed"

    resumed = trainer(folder / "killed")
    resumed.train(resume_from_checkpoint=True)  # checkpoint-21: two of four micro-batches are left
    before, after = rewards(through), rewards(resumed)
    for step, value in before.items():
        print(f"step {step:3}: reward {value:.3f}, killed and resumed {after[step]:.3f}", flush=True)
    equal = all(
        torch.equal(one, other) for one, other in zip(through.model.parameters(), resumed.model.parameters(), strict=True)
    )
    print(f"weights equal bit for bit: {equal}")
    print(f"forwards for old log-probs alone: {through.old_logps_forwards}; TRL runs {STEPS * 2}")
    assert equal and before == after and before[STEPS] > before[SAVED_EVERY] + 0.1, "it learns, and a kill changes nothing"


if __name__ == "__main__":
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as made:
            main(Path(made))
