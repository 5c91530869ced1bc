"""Generation and training side by side, with a queue between them that survives a kill: NumPy alone, a few seconds.

The model is TRL's asynchronous GRPO: a worker samples groups with the weights that it was given last, the trainer takes groups off a
queue, skips what is too many versions old, and hands new weights over after each step. There the queue lies in memory, and a
checkpoint knows no more than how many prompts were read: what was sampled and not trained on is lost. Here it is a
:class:`ReplayBuffer`: the worker's position among the prompts lies in the same commit as the group that it made.

Kill it at any time and start it again with the same folder: the queue is what it was.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rollstore.replay_buffer import ReplayBuffer, Sample

PROMPTS, TOKENS, LENGTH, GROUP = 8, 12, 5, 8
STEPS, MAX_STALENESS, QUEUED_MAX, GROUPS_A_STEP = 60, 4, 256, 8
CLIP, RATE = 0.2, 6.0
Floats = npt.NDArray[np.float32]


def log_probs(logits: Floats) -> Floats:
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


class Queue:
    """The buffer between the threads: one lock, and a signal that something changed."""

    def __init__(self, buffer: ReplayBuffer, logits: Floats) -> None:
        self.buffer = buffer
        self.changed = threading.Condition()
        self.logits, self.version = logits, buffer.step
        self.is_closed = False

    def read_weights(self) -> tuple[Floats, int]:
        with self.changed:
            return self.logits, self.version

    def put(self, prompt: int, index: int, version: int, tokens: Any, sampler: Any, rewards: Floats) -> bool:
        """Puts a group in as soon as there is room; ``False`` when the trainer is done."""
        advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
        with self.changed:
            self.changed.wait_for(lambda: self.is_closed or len(self.buffer) + GROUP <= QUEUED_MAX)
            if self.is_closed:
                return False
            self.buffer.put(
                version,
                group_ids=[index] * GROUP,
                prompt_ids=[[prompt]] * GROUP,
                completion_ids=tokens,
                sampler_logps=sampler,
                rewards=rewards,
                advantages=advantages.astype(np.float32),
                cursor=json.dumps({"prompt_index": index + 1}).encode(),
            )
            self.changed.notify_all()
            return True

    def take(self) -> Sample:
        """The oldest groups that may still be trained on, as soon as there are enough."""
        with self.changed:
            self.changed.wait_for(lambda: len(self.buffer.sample(GROUPS_A_STEP, strategy="oldest")) == GROUPS_A_STEP * GROUP)
            return self.buffer.sample(GROUPS_A_STEP, strategy="oldest", hold=True)

    def trained(self, sample: Sample, logits: Floats) -> int:
        """Ends a step: the groups are done with, the weights are new, and what is too old for them is dropped."""
        with self.changed:
            self.buffer.trained(sample.ids)
            self.logits, self.version = logits, self.version + 1
            dropped = self.buffer.advance(self.version)
            self.changed.notify_all()
            return dropped

    def close(self) -> None:
        with self.changed:
            self.is_closed = True
            self.changed.notify_all()


def generate(queue: Queue, first: int) -> None:
    """The worker: samples a group for one prompt after the other."""
    index = first
    while True:
        logits, version = queue.read_weights()
        random = np.random.default_rng(index)
        prompt = index % PROMPTS
        scores = log_probs(logits[prompt])
        cumulated = np.exp(scores.astype(np.float64)).cumsum(axis=-1)
        drawn = (random.random((GROUP, LENGTH, 1)) * cumulated[:, -1:] > cumulated).sum(axis=-1)
        sampler = scores[np.arange(LENGTH), drawn]
        rewards = (drawn == prompt).mean(axis=1).astype(np.float32)
        if not queue.put(prompt, index, version, list(drawn), list(sampler), rewards):
            return
        index += 1


def step(buffer: ReplayBuffer, sample: Sample, logits: Floats) -> tuple[Floats, float]:
    """One optimizer step by the clipped ratio to the sampler's log-probs, and the mean reward."""
    tokens = buffer.gather(sample.ids, "completion_ids", np.zeros((len(sample), LENGTH), np.int64)).values
    sampler = buffer.gather(sample.ids, "sampler_logps").values
    gradient = np.zeros_like(logits)
    rewards: list[float] = []
    for row, id in enumerate(sample.ids):
        rollout = buffer.store[int(id)]
        prompt, advantage = int(rollout.prompt_ids[0]), rollout.advantage or 0.0
        rewards.append(rollout.reward or 0.0)
        scores = log_probs(logits[prompt])
        ratio = np.exp(scores[np.arange(LENGTH), tokens[row]] - sampler[row])
        clipped = (ratio > 1 + CLIP) if advantage > 0 else (ratio < 1 - CLIP)
        weight = np.where(clipped, 0, ratio * advantage)
        hit = np.zeros((LENGTH, TOKENS), np.float32)
        hit[np.arange(LENGTH), tokens[row]] = 1
        gradient[prompt] += weight[:, None] * (hit - np.exp(scores))
    return (logits + RATE * gradient / len(sample)).astype(np.float32), float(np.mean(rewards))


def save(path: Path, logits: Floats) -> None:
    """Writes the weights whole, or leaves the old ones."""
    new = path.with_suffix(".new.npy")
    np.save(new, logits)
    new.replace(path)


def main(folder: Path) -> float:
    """Trains, or goes on training, and returns the mean reward of the last step."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = folder / "weights.npy"
    reward = 0.0
    with ReplayBuffer.open(
        folder / "queue", max_staleness=MAX_STALENESS, by="group", group_size=GROUP, durability="buffered"
    ) as buffer:
        logits = np.load(weights) if weights.exists() else np.zeros((PROMPTS, LENGTH, TOKENS), np.float32)
        first = 0 if buffer.cursor is None else json.loads(buffer.cursor)["prompt_index"]
        if first:
            print(f"goes on at step {buffer.step}, prompt {first}, with {len(buffer)} rollouts in the queue", flush=True)
        queue = Queue(buffer, logits)
        worker = threading.Thread(target=generate, args=(queue, first))
        worker.start()
        try:
            while queue.version < STEPS:
                sample = queue.take()
                logits, reward = step(buffer, sample, queue.logits)
                save(weights, logits)
                dropped = queue.trained(sample, logits)
                if queue.version % 10 == 0:
                    ages = f"{sample.ages.min()} to {sample.ages.max()}"
                    print(f"step {queue.version:3}: reward {reward:.2f}, {ages} versions old, {dropped} dropped", flush=True)
        finally:
            queue.close()
            worker.join()
        print(f"dropped over the run: {buffer.dropped}, trained on: {buffer.store.stats()['retired_trained']}")
    return reward


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as made:
            assert main(Path(made)) > 0.8, "it learns"
