"""Rollouts as TRL pads them, and as the store keeps them: to it and back, bit for bit.

Always true: whatever TRL puts into a batch is either among the keys below, and comes back as it was, or the window is named
unrestorable when it is stored. Nothing is left out in silence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from ._torch import module

if TYPE_CHECKING:
    from .._batch import Batch
    from .._store import RolloutStore

IDS = "rollout_ids"
"""The key under which the ids travel through TRL's shuffle and split: an int64 tensor, a row as long as the rest."""

COMPLETION_MASK = "trl_completion_mask"
"""Column: 0 where TRL hides a completion token from the model, as it does all of a truncated one. uint8."""

TOOL_MASK = "trl_tool_mask"
"""Column: 0 where a token came from a tool. uint8."""

SAMPLING_RATIO = "trl_importance_sampling_ratio"
"""Column: the correction between the sampler and the trainer, one number a token or one in all. float32."""

RESTORED = {
    "prompt_ids",
    "prompt_mask",
    "completion_ids",
    "completion_mask",
    "advantages",
    "num_items_in_batch",
    "old_per_token_logps",
    "sampling_per_token_logps",
    "ref_per_token_logps",
    "importance_sampling_ratio",
    "tool_mask",
    IDS,
}
"""Keys of a batch that come back."""


@dataclass
class Layout:
    """What the padded tensors of a window are, beside what is in the rows themselves. All ranks and slices share it."""

    keys: list[str]
    """The batch's keys."""
    prompt_width: int
    completion_width: int
    items: int
    """`num_items_in_batch`."""
    pad_token_id: int
    ratio_width: int = 0
    """Width of `importance_sampling_ratio`: 1 where a sequence has one; 0 without any."""

    @classmethod
    def of(cls, batch: dict[str, Any], pad_token_id: int) -> Layout:
        """The layout of a batch."""
        ratio = batch.get("importance_sampling_ratio")
        return cls(
            keys=sorted(key for key, value in batch.items() if value is not None),
            prompt_width=int(batch["prompt_ids"].size(1)),
            completion_width=int(batch["completion_ids"].size(1)),
            items=int(batch["num_items_in_batch"]),
            pad_token_id=pad_token_id,
            ratio_width=0 if ratio is None else int(ratio.size(1)),
        )


def unrestorable(batch: dict[str, Any]) -> str | None:
    """Why a batch could not be brought back; `None` where it can."""
    others = sorted(key for key, value in batch.items() if value is not None and key not in RESTORED)
    if others:
        return f"the store does not keep {', '.join(others)}"
    if batch["advantages"].ndim != 1:
        return "advantages are not one number a rollout"
    return None


def insert(
    into: Batch,
    ids: npt.NDArray[np.uint64],
    step: int,
    batch: dict[str, Any],
    *,
    lengths: Sequence[int],
    group_ids: npt.NDArray[np.uint64],
    rewards: npt.NDArray[np.float32],
    versions: tuple[int, int],
) -> None:
    """Inserts a generation batch, ragged.

    Args:
        lengths: the number of tokens of each completion. Masks do not tell it: TRL empties that of a truncated completion.
        versions: the ref version and the KL reference version that log-probs of the batch were made with.
    """
    tool_mask, ratio = batch.get("tool_mask"), batch.get("importance_sampling_ratio")
    loss_mask = batch["completion_mask"] if tool_mask is None else batch["completion_mask"] * tool_mask
    columns: dict[str, Any] = {COMPLETION_MASK: _bytes(batch["completion_mask"])}
    column_lengths: dict[str, Any] = {}
    if tool_mask is not None:
        columns[TOOL_MASK] = _bytes(tool_mask)
    if ratio is not None:
        columns[SAMPLING_RATIO] = _floats(ratio)
        if ratio.size(1) == 1:
            column_lengths[SAMPLING_RATIO] = np.ones(len(ids), np.int64)
    advantages = batch["advantages"]
    into.insert(
        ids,
        step,
        prompt_ids=_numpy(batch["prompt_ids"]),
        prompt_lengths=_numpy(batch["prompt_mask"].bool()),
        completion_ids=_numpy(batch["completion_ids"]),
        lengths=np.asarray(lengths, np.int64),
        loss_mask=_bytes(loss_mask),
        sampler_logps=_floats(batch.get("sampling_per_token_logps")),
        old_logps=_floats(batch.get("old_per_token_logps")),
        old_version=versions[0] if "old_per_token_logps" in batch else None,
        kl_ref_logps=_floats(batch.get("ref_per_token_logps")),
        kl_ref_version=versions[1] if "ref_per_token_logps" in batch else None,
        advantages=_floats(advantages) if advantages.ndim == 1 else None,
        rewards=rewards,
        group_ids=group_ids,
        columns=columns,
        column_lengths=column_lengths,
    )


def old_logps(store: RolloutStore, ids: Sequence[int], width: int, step: int, updates: int) -> Any:
    """The old logps of these rollouts: a tensor `[rows, width]` on the CPU, as TRL pads it.

    Raises :class:`RuntimeError` where they are not of the weights that generated the rollouts, `updates` changes ago.
    """
    lag = store.staleness(ids, step).lag
    if (lag != updates).any():
        row = int(np.argmax(lag != updates))
        raise RuntimeError(
            f"old logps of rollout {ids[row]} are {lag[row]} weight changes old, the rollout {updates}: they are of other weights"
        )
    return _gathered(store, ids, "old_logps", width, step=step)


def batch_of(store: RolloutStore, ids: Sequence[int], layout: Layout, step: int) -> dict[str, Any]:
    """The padded batch of these rollouts, on the CPU: every key and bit as TRL made it, in the order of the ids."""
    torch = module("torch")
    width = layout.completion_width
    rollouts = [store[id] for id in ids]
    prompt_lens = np.array([len(rollout.prompt_ids) for rollout in rollouts])
    prompt_ids = np.full((len(ids), layout.prompt_width), layout.pad_token_id, np.int64)
    store.gather(ids, "prompt_ids", prompt_ids, pad=layout.pad_token_id, side="left")
    completion_ids = np.full((len(ids), width), layout.pad_token_id, np.int64)
    store.gather(ids, "completion_ids", completion_ids, pad=layout.pad_token_id)
    begins = layout.prompt_width - prompt_lens
    completion_mask = _gathered(store, ids, COMPLETION_MASK, width).long()
    batch: dict[str, Any] = {
        "prompt_ids": torch.from_numpy(prompt_ids),
        "prompt_mask": torch.from_numpy((np.arange(layout.prompt_width) >= begins[:, None]).astype(np.int64)),
        "completion_ids": torch.from_numpy(completion_ids),
        "completion_mask": completion_mask,
        "advantages": torch.tensor([rollout.advantage for rollout in rollouts], dtype=torch.float32),
        "num_items_in_batch": torch.tensor(layout.items),
        IDS: torch.tensor(ids, dtype=torch.int64),
    }
    if "tool_mask" in layout.keys:
        # Padding counts as the model's own, but for completions that are hidden altogether.
        seen = (completion_mask.sum(1, keepdim=True) > 0).long()
        batch["tool_mask"] = _gathered(store, ids, TOOL_MASK, width, pad=1).long() * seen
    if "importance_sampling_ratio" in layout.keys:
        batch["importance_sampling_ratio"] = _gathered(store, ids, SAMPLING_RATIO, layout.ratio_width, pad=1.0)
    for key, column in (
        ("sampling_per_token_logps", "sampler_logps"),
        ("old_per_token_logps", "old_logps"),
        ("ref_per_token_logps", "kl_ref_logps"),
    ):
        if key in layout.keys:
            batch[key] = _gathered(store, ids, column, width, step=step)
    return batch


def _gathered(
    store: RolloutStore, ids: Sequence[int], column: str, width: int, *, pad: float = 0.0, step: int | None = None
) -> Any:
    dtype = np.uint8 if column in (COMPLETION_MASK, TOOL_MASK) else np.float32
    out = np.empty((len(ids), width), dtype)
    # A reference's log-probs stay in use for the whole window, also when the reference is synchronised meanwhile.
    stale = "allow" if column == "kl_ref_logps" else "error"
    store.gather(ids, column, out, pad=pad, step=step, stale=stale)
    return module("torch").from_numpy(out)


def _numpy(tensor: Any) -> npt.NDArray[Any]:
    return cast("npt.NDArray[Any]", tensor.detach().cpu().numpy())


def _bytes(tensor: Any) -> npt.NDArray[np.uint8]:
    return _numpy(tensor).astype(np.uint8)


def _floats(tensor: Any | None) -> npt.NDArray[np.float32] | None:
    return None if tensor is None else _numpy(tensor.float())
