"""The trainer's store, and its way through a checkpoint and back.

Always true:
- A checkpoint of the rollouts is complete before the trainer's own is written.
- All ranks restore, or none.
"""

from __future__ import annotations

import os
import shutil
import warnings
from typing import TYPE_CHECKING, Any

from .._store import RolloutStore
from ..errors import Error, InvalidError, LockedError
from . import _rows as rows
from ._restore import FOLDER, RolloutsNotRestored, Saved, first_reason, misfit
from ._torch import module
from ._window import Window

if TYPE_CHECKING:
    from ._surface import Trainer
else:
    Trainer = object

NO_BOUND = 2**64 - 1


class Resuming(Trainer):
    """Opens the store, saves it with the trainer's checkpoints, and restores it with them."""

    _store: RolloutStore | None
    _store_options: dict[str, Any]
    _shard: str
    """The folder of this rank's store."""
    _window: Window | None
    """The generation in use."""
    _layout: rows.Layout | None
    _generation: int
    """Generations made."""
    _sampler: Any

    @property
    def store(self) -> RolloutStore:
        """This rank's store. It is open from the begin of training on."""
        if self._store is None:
            raise InvalidError("the store opens when training begins")
        return self._store

    @property
    def _rank_name(self) -> str:
        return f"rank-{self.accelerator.process_index:05}"

    @property
    def _store_step(self) -> int:
        """The step that the store is told: the trainer's, or the one where it already is, when training is begun again."""
        return max(self.state.global_step, self.store.clock or 0)

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        self._sampler = super()._get_train_sampler(dataset)
        return self._sampler

    def _shape(self) -> dict[str, Any]:
        """Settings that the order of rollouts depends on."""
        args = self.args
        return {
            "world_size": self.accelerator.num_processes,
            "per_device_train_batch_size": args.per_device_train_batch_size,
            "gradient_accumulation_steps": args.gradient_accumulation_steps,
            "steps_per_generation": args.steps_per_generation,
            "num_iterations": self.num_iterations,
            "num_generations": self.num_generations,
            "seed": args.seed,
        }

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        if not self.args.save_only_model and self._store is not None:
            self._save_rollouts(os.path.join(self._get_output_dir(trial=trial), f"checkpoint-{self.state.global_step}"))
        super()._save_checkpoint(model, trial)

    def _save_rollouts(self, checkpoint: str) -> None:
        order = [] if self._buffered_inputs is None else [batch[rows.IDS].tolist() for batch in self._buffered_inputs]
        saved = Saved(
            shape=self._shape(),
            micro_step=self._step,
            generation=self._generation,
            epochs=int(self.state.epoch or 0),
            window=self._window,
            layout=self._layout,
            order=order,
        )
        self.store.set_cursor(saved.to_bytes())
        path = os.path.join(checkpoint, FOLDER, self._rank_name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            self.store.checkpoint(path)
        except InvalidError:
            if not os.path.isdir(path):
                raise
            # What a run of another store left there, as the rest of this checkpoint that is about to be written over.
            shutil.rmtree(path)
            self.store.checkpoint(path)

    def _load_optimizer_and_scheduler(self, checkpoint: Any) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            self._resume(str(checkpoint))

    def _resume(self, checkpoint: str) -> None:
        """Restores all ranks, or none."""
        path = os.path.join(checkpoint, FOLDER, self._rank_name)
        if self._store is not None:
            self._store.close()
            self._store = None
        reason = first_reason(self._gather(misfit(path, self._shape())))
        found: tuple[Saved, list[dict[str, Any]] | None] | None = None
        if reason is None:
            mine, found = self._restore(path)
            reason = first_reason(self._gather(mine))
        if reason is None and found is not None:
            self._take_over(*found)
        else:
            warnings.warn(
                f"the rollouts of {checkpoint} are not restored, they are generated again: {reason}",
                RolloutsNotRestored,
                stacklevel=2,
            )
            self._begin_anew()

    def _restore(self, path: str) -> tuple[str | None, tuple[Saved, list[dict[str, Any]] | None] | None]:
        """Restores this rank's store, and returns why it could not, or what was found: the trainer itself is as it was, since other
        ranks may fail."""
        try:
            RolloutStore.restore(path, self._shard)
            self._open()
            saved = Saved.from_bytes(self.store.cursor or b"{}")
            buffered = None
            if saved.window is not None and saved.layout is not None and saved.micro_step % saved.window.length:
                buffered = [self._rebuilt(ids, saved.layout) for ids in saved.order]
        except LockedError:
            raise
        except (Error, OSError, ValueError) as error:
            return str(error), None
        return None, (saved, buffered)

    def _take_over(self, saved: Saved, buffered: list[dict[str, Any]] | None) -> None:
        """All ranks have restored: the trainer goes on from there."""
        self._step, self._generation = saved.micro_step, saved.generation
        self._window, self._layout, self._buffered_inputs = saved.window, saved.layout, buffered
        if self._sampler is not None:
            # Its generator begins with the seed again. Each epoch draws an order when it begins.
            for _ in range(saved.epochs):
                next(iter(self._sampler), None)

    def _rebuilt(self, ids: list[int], layout: rows.Layout) -> dict[str, Any]:
        batch = rows.batch_of(self.store, ids, layout, self._store_step)
        return {key: value if key == rows.IDS else value.to(self.accelerator.device) for key, value in batch.items()}

    def _begin(self) -> None:
        """Training begins. A run that resumes has its store already, and so has one that is begun again in this process."""
        if self._store is None:
            self._begin_anew()

    def _begin_anew(self) -> None:
        """An empty store: what an earlier run left is retired."""
        if self._store is None:
            self._open()
        store = self.store
        self._step, self._generation = 0, 0
        self._window, self._layout, self._buffered_inputs = None, None, None
        if store.clock is not None:
            store.rewind(0, created_later="drop")
        left = store.ids()
        if len(left):
            store.retire(left, "rewound")

    def _open(self) -> None:
        # Old log-probs serve for their whole window, in which the weights change once a micro-step at most.
        options: dict[str, Any] = {
            "window": NO_BOUND,
            "max_version_lag": self.args.steps_per_generation * self.num_iterations,
            "durability": "buffered",
            **self._store_options,
        }
        os.makedirs(self._shard, exist_ok=True)
        self._store = RolloutStore.open(self._shard, **options)

    def _gather(self, reason: str | None) -> list[str | None]:
        """What every rank says, on every rank."""
        if self.accelerator.num_processes == 1:
            return [reason]
        return module("accelerate.utils").gather_object([reason])
