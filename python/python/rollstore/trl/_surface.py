"""Every part of TRL's and transformers' trainer that this package reads, calls or overrides.

For the type checker alone: at run time the mixin stands before a real trainer. What is not listed here is not touched, so that a
new version of trl is read against one page.
"""

from __future__ import annotations

from typing import Any


class Trainer:
    """The surface of `trl.GRPOTrainer`."""

    # Read.
    args: Any
    accelerator: Any
    callback_handler: Any
    model: Any
    state: Any
    reward_weights: Any
    num_iterations: int
    num_generations: int
    beta: float
    mask_truncated_completions: bool
    pad_to_multiple_of: int | None
    use_vllm: bool
    vllm_importance_sampling_correction: bool

    # Read and written: the position in the window, and the window itself.
    _step: int
    _tokenizer: Any
    _buffered_inputs: list[dict[str, Any]] | None

    # Overridden, and called by `super()`.
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def _get_train_sampler(self, dataset: Any = None) -> Any: ...
    def _generate(self, prompts: Any) -> Any: ...
    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Any: ...
    def _generate_and_score_completions(self, inputs: Any) -> Any: ...
    def _get_per_token_logps_and_entropies(self, model: Any, *args: Any, **kwargs: Any) -> Any: ...
    def _compute_loss(self, model: Any, inputs: Any) -> Any: ...
    def _save_checkpoint(self, model: Any, trial: Any) -> None: ...
    def _load_optimizer_and_scheduler(self, checkpoint: Any) -> None: ...

    # Called.
    def _get_output_dir(self, trial: Any) -> str: ...
    def add_callback(self, callback: Any) -> None: ...
