"""Rollouts of TRL's GRPO trainer in a store: a resume goes on exactly where the run was, also in the middle of a generation.

::

    from rollstore.trl import StoreGRPOTrainer

    trainer = StoreGRPOTrainer(model=model, reward_funcs=reward, args=args, train_dataset=dataset)  # as GRPOTrainer
    trainer.train(resume_from_checkpoint=True)

:class:`StoreTrainerMixin` does the same for a subclass of your own. It takes trl 1.10 or newer.
"""

from ._torch import require_trl

require_trl()

from ._elastic import reshard_checkpoint  # noqa: E402
from ._restore import RolloutsNotRestored  # noqa: E402
from ._trainer import StoreGRPOTrainer, StoreTrainerMixin  # noqa: E402

__all__ = ["RolloutsNotRestored", "StoreGRPOTrainer", "StoreTrainerMixin", "reshard_checkpoint"]
