"""What is seen of a run: that the weights changed, that the KL reference changed, that training begins.

Nothing is computed from step numbers: an optimizer step that a scaler skipped is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._torch import module

if TYPE_CHECKING:
    from ._trainer import StoreTrainerMixin


def observer(trainer: StoreTrainerMixin) -> Any:
    """A callback that tells the trainer what happened."""
    base: Any = module("transformers").TrainerCallback

    class Observer(base):
        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            trainer._begin()

        def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if not trainer.accelerator.optimizer_step_was_skipped:
                trainer._weights_changed()

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            trainer.store.sync()

    return Observer()


def observe_reference(trainer: StoreTrainerMixin) -> None:
    """Counts the KL reference's version up whenever TRL synchronises it with the policy."""
    synchronises: Any = module("trl.trainer.callbacks").SyncRefModelCallback
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, synchronises):
            _observe(callback, trainer)


def _observe(callback: Any, trainer: StoreTrainerMixin) -> None:
    synchronise = callback.sync_target_model

    def observed(*args: Any, **kwargs: Any) -> Any:
        result = synchronise(*args, **kwargs)
        trainer.store.advance_kl_ref_version()
        return result

    callback.sync_target_model = observed
