"""A policy that learns, with a store beside it: runs as it stands, on a CPU, with NumPy alone, in a few seconds.

The model is a table of logits: for each prompt the probabilities of the next token. It is made here and learns to answer each
prompt with its own number. The loop is the one of GRPO with a replay buffer: sample a group for each prompt, keep it in the store,
train on rollouts of the last few steps with the clipped ratio, and compute old log-probs for those alone that need it.

Kill it at any time and start it again: it goes on from where it was.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rollstore import Plan, RolloutStore

PROMPTS, TOKENS, LENGTH, GROUP = 8, 12, 5, 8
STEPS, WINDOW, CLIP, RATE = 120, 4, 0.2, 6.0
Floats = npt.NDArray[np.float32]


class Policy:
    """For each prompt, the logits of every token at every place."""

    def __init__(self) -> None:
        self.logits: Floats = np.zeros((PROMPTS, LENGTH, TOKENS), np.float32)

    def log_probs(self, prompt: int) -> Floats:
        logits = self.logits[prompt]
        return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))

    def of(self, prompt: int, tokens: Any) -> Floats:
        """Log-probs of these tokens. Shape ``[len(tokens)]``."""
        places = np.arange(len(tokens))
        return self.log_probs(prompt)[places, np.asarray(tokens)]


def generate(policy: Policy, store: RolloutStore, step: int, random: np.random.Generator) -> None:
    """Samples a group for each prompt and keeps it: rollouts, what is too old to train on, and where the run stands, in one commit."""
    prompts: list[list[int]] = []
    completions: list[npt.NDArray[np.int64]] = []
    sampler: list[Floats] = []
    for prompt in range(PROMPTS):
        probs = np.exp(policy.log_probs(prompt))
        for _ in range(GROUP):
            tokens = np.array([random.choice(TOKENS, p=place / place.sum()) for place in probs.astype(np.float64)])
            prompts.append([prompt])
            completions.append(tokens)
            sampler.append(policy.of(prompt, tokens))
    rewards = np.array([np.mean(tokens == prompt[0]) for prompt, tokens in zip(prompts, completions, strict=True)], np.float32)
    groups = rewards.reshape(PROMPTS, GROUP)
    advantages = (groups - groups.mean(axis=1, keepdims=True)) / (groups.std(axis=1, keepdims=True) + 1e-4)
    with store.batch() as batch:
        batch.insert(
            store.allocate_ids(len(prompts)),
            created_step=step,
            prompt_ids=prompts,
            completion_ids=completions,
            sampler_logps=sampler,
            rewards=rewards,
            advantages=advantages.reshape(-1),
            group_ids=np.repeat(step * PROMPTS + np.arange(PROMPTS), GROUP),
        )
        batch.retire_created_before(max(0, step - WINDOW), "trained")
        batch.cursor(json.dumps({"step": step, "logits": policy.logits.tolist(), "random": random.bit_generator.state}).encode())


def train(policy: Policy, store: RolloutStore, step: int, random: np.random.Generator) -> None:
    """One optimizer step on a batch of the buffer, by the clipped ratio."""
    ids = random.choice(store.ids(), 128, replace=True)

    def forward(plan: Plan) -> list[Floats]:
        return [policy.of(int(rollout.prompt_ids[0]), rollout.completion_ids) for rollout in plan.rollouts]

    old = store.get_or_compute(ids, step, forward)  # stored ones where they are fresh: a forward for the others alone
    gradient = np.zeros_like(policy.logits)
    for row, id in enumerate(ids):
        rollout = store[int(id)]
        prompt, tokens = int(rollout.prompt_ids[0]), rollout.completion_ids
        ratio = np.exp(policy.of(prompt, tokens) - old.values[row, : old.lens[row]])
        advantage = rollout.advantage or 0.0
        clipped = (ratio > 1 + CLIP) if advantage > 0 else (ratio < 1 - CLIP)
        weight = np.where(clipped, 0, ratio * advantage)
        hit = np.zeros((LENGTH, TOKENS), np.float32)
        hit[np.arange(LENGTH), tokens] = 1
        gradient[prompt] += weight[:, None] * (hit - np.exp(policy.log_probs(prompt)))
    with store.weight_update(step):  # one log record: whatever was computed before is stale
        policy.logits += RATE * gradient / len(ids)


def main(path: Path) -> float:
    """Trains, or goes on training, and returns the mean reward of the last rollouts."""
    policy, random = Policy(), np.random.default_rng(0)
    with RolloutStore.open(path, window=WINDOW, max_version_lag=3) as store:
        first, resumed = 0, None
        if store.cursor is not None:
            saved = json.loads(store.cursor)
            policy.logits = np.array(saved["logits"], np.float32)
            random.bit_generator.state = saved["random"]
            first = resumed = saved["step"]
            if store.clock is not None:
                # Log-probs may be of weights that will not come again: all that was computed is stale.
                store.rewind(min(first, store.clock), created_later="keep")
            print(f"goes on at step {first} with {len(store)} rollouts", flush=True)
        reward = 0.0
        for step in range(first, STEPS):
            if step != resumed:  # its rollouts were stored in the same commit as the cursor
                generate(policy, store, step, random)
            train(policy, store, step, random)
            rewards = [store[int(id)].reward or 0.0 for id in store.ids()[-PROMPTS * GROUP :]]
            reward = float(np.mean(rewards))
            if step % 20 == 0 or step == STEPS - 1:
                stats = store.stats()
                print(f"step {step:3}: reward {reward:.2f}, {stats['live']} rollouts, {stats['computed']} computed of {stats['asked']} asked", flush=True)
    return reward


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            assert main(Path(folder) / "rollouts") > 0.8, "it learns"
