"""The trainer.

Always true:
- Losses are those of the trainer below it, bit for bit: old log-probs are of the weights that generated, whoever computes them.
- A checkpoint of the rollouts is complete before the trainer's own is written.
- Ranks never decide by what their stores hold where they must run the same forwards; where they restore, they agree first.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..errors import InvalidError
from . import _rows as rows
from ._hooks import observe_reference, observer
from ._restore import FOLDER
from ._resuming import Resuming
from ._torch import module
from ._window import Window


class StoreTrainerMixin(Resuming):
    """Keeps the rollouts of a GRPO trainer in a store. It stands before the trainer: ``class Mine(StoreTrainerMixin, GRPOTrainer)``.

    Args:
        store_path: the folder of the stores, one for each rank; ``_rollouts`` under the trainer's output unless given. Checkpoints
            are links, not copies, where both are on one file system.
        store_options: further options of :meth:`rollstore.RolloutStore.open`, for example ``run_identity`` or ``quota_bytes``.

    A run that begins anew retires what an earlier one left in the folder. One that resumes brings rollouts, micro-step, old
    log-probs and prompt order back from the checkpoint; where it cannot, it warns with :class:`RolloutsNotRestored`.
    """

    def __init__(
        self,
        *args: Any,
        store_path: str | os.PathLike[str] | None = None,
        store_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self._store = None
        self._store_options = store_options or {}
        self._window = None
        self._layout = None
        self._generation = 0
        self._sampler = None
        # While a generation is made, what is known of it before TRL pads and masks.
        self._making: dict[str, Any] | None = None
        # Where the log-probs of the training forward go.
        self._capture: list[Any] | None = None
        self.old_logps_forwards = 0
        """Micro-batches that were run forward for nothing but their old log-probs."""
        super().__init__(*args, **kwargs)
        if getattr(self, "use_liger_kernel", False) or getattr(self, "use_liger_loss", False):
            raise ValueError("rollstore.trl cannot see the log-probs of the liger loss; set use_liger_kernel=False")
        folder = os.path.join(self.args.output_dir, FOLDER) if store_path is None else os.fspath(store_path)
        self._shard = os.path.join(folder, self._rank_name)
        self.add_callback(observer(self))
        observe_reference(self)

    # Generating.

    def _generate(self, prompts: Any) -> Any:
        made = super()._generate(prompts)
        if self._making is not None:
            self._making["lengths"] = [len(completion) for completion in made[1]]
        return made

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Any:
        rewards = super()._calculate_rewards(*args, **kwargs)
        if self._making is not None:
            self._making["rewards"] = rewards
        return rewards

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        if not self.model.training:
            return super()._generate_and_score_completions(inputs)
        self._making = {}
        try:
            with self._without_old_logps():
                batch = super()._generate_and_score_completions(inputs)
            self._keep(batch, **self._making)
        finally:
            self._making = None
        return batch

    @contextmanager
    def _without_old_logps(self) -> Generator[None]:
        """Keeps TRL from computing old logps ahead: it does so where a window and an optimizer step do not fit into each other. The
        sampler's correction needs them at once, and is left as it is."""
        needed = self.use_vllm and self.vllm_importance_sampling_correction
        accumulation = self.args.gradient_accumulation_steps
        if not needed:
            self.args.gradient_accumulation_steps = self.args.steps_per_generation * self.num_iterations
        try:
            yield
        finally:
            self.args.gradient_accumulation_steps = accumulation

    def _keep(self, batch: dict[str, Any], lengths: list[int], rewards: Any) -> None:
        """Stores a generation, and ends the one before, in one commit."""
        torch, store, step = module("torch"), self.store, self._store_step
        count, rank = len(lengths), self.accelerator.process_index
        # No two ranks have one, so that another number of ranks can share them. One generation is live at a time.
        ids = ((self._generation * self.accelerator.num_processes + rank) * count + np.arange(count)).astype(np.uint64)
        weighted = (rewards * self.reward_weights.to(rewards.device).unsqueeze(0)).nansum(dim=1).float().cpu().numpy()
        prompts = -(-count * self.accelerator.num_processes // self.num_generations)
        first = self._generation * prompts
        window = Window(
            slices=self.args.steps_per_generation,
            iterations=self.num_iterations,
            ids=[int(id) for id in ids],
            unrestorable=rows.unrestorable(batch),
        )
        with store.batch() as commit:
            if self._window is not None:
                commit.retire(self._window.ids, "trained")
            rows.insert(
                commit,
                ids,
                step,
                batch,
                lengths=lengths,
                group_ids=(first + (rank * count + np.arange(count)) // self.num_generations).astype(np.uint64),
                rewards=weighted[rank * count : (rank + 1) * count],
                versions=(store.ref_version, store.kl_ref_version),
            )
        if "old_per_token_logps" in batch:
            window.stored = set(range(window.slices))
        batch[rows.IDS] = torch.from_numpy(ids.astype(np.int64))
        self._window, self._generation = window, self._generation + 1
        self._layout = rows.Layout.of(batch, self._pad_token_id)

    @property
    def _pad_token_id(self) -> int:
        return int(self._tokenizer.pad_token_id)

    # Training.

    def _get_per_token_logps_and_entropies(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        results = super()._get_per_token_logps_and_entropies(model, *args, **kwargs)
        if self._capture is not None and module("torch").is_grad_enabled():
            self._capture.append(results[0].detach())
        return results

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        window = self._window
        if not self.model.training or window is None or rows.IDS not in inputs:
            return super()._compute_loss(model, inputs)
        inputs, now, changes = dict(inputs), window.slice_at(self._step), bool(self.accelerator.sync_gradients)
        if changes:
            # The weights change behind this micro-step. Now is the last moment: with DeepSpeed they change within the backward.
            for slice in window.pending(self._step):
                window.captured[slice] = self._forward(slice)
        if window.is_stale and "old_per_token_logps" not in inputs:
            ids, width = inputs[rows.IDS].tolist(), inputs["completion_ids"].size(1)
            old = rows.old_logps(self.store, ids, width, self._store_step, window.updates)
            inputs["old_per_token_logps"] = old.to(inputs["completion_ids"].device)
        self._capture = [] if window.wants(self._step, now) else None
        try:
            loss = super()._compute_loss(model, inputs)
            if self._capture:
                window.captured[now] = self._capture[0]
        finally:
            self._capture = None
        if changes and window.captured:
            self._store_captured(window)
        return loss

    def _forward(self, slice: int) -> Any:
        """Old logps of a slice that has not been consumed yet, as TRL computes them."""
        torch, batch = module("torch"), self._slice(slice)
        forward = super()._get_per_token_logps_and_entropies
        taken = inspect.signature(forward).parameters
        images = {key: value for key, value in batch.items() if key in taken and value is not None}
        quiet = module("trl.models.utils").disable_gradient_checkpointing
        with torch.no_grad(), quiet(self.model, self.args.gradient_checkpointing_kwargs):
            logps = forward(
                self.model,
                torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1),
                torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1),
                batch["completion_ids"].size(1),
                **images,
            )[0]
        self.old_logps_forwards += 1
        return logps

    def _slice(self, slice: int) -> dict[str, Any]:
        if self._buffered_inputs is None:
            raise InvalidError("there is no generation in use")
        return self._buffered_inputs[slice]

    def _store_captured(self, window: Window) -> None:
        """Stores old logps that lay in memory, in one commit: the weights that made them are about to change."""
        with self.store.batch() as commit:
            for slice, logps in window.captured.items():
                plan = self.store.plan_for(self._slice(slice)[rows.IDS].tolist(), self._store_step)
                commit.apply(plan, logps.float().cpu().numpy()[plan.positions])
        window.stored |= set(window.captured)
        window.captured.clear()

    def _weights_changed(self) -> None:
        """An optimizer step was taken."""
        self.store.advance_ref_version(max(self.state.global_step + 1, self._store_step))
        if self._window is not None:
            self._window.updates += 1


class StoreGRPOTrainer(StoreTrainerMixin, module("trl").GRPOTrainer):  # pyright: ignore[reportUntypedBaseClass]
    """`trl.GRPOTrainer` with its rollouts in a store: see :class:`StoreTrainerMixin` for the two arguments that it adds."""
