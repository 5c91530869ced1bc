"""A checkpoint's rollouts, made to fit another number of processes.

Always true:
- A checkpoint's rollouts are those of all its ranks, or of all the new ones. Those before stay beside them.
- A rollout is consumed in the micro-step in which it would have been, beside the same others.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace

from .._shards import merge
from .._store import RolloutStore
from ..errors import InvalidError
from ._restore import FOLDER, Saved
from ._window import Window

def reshard_checkpoint(checkpoint: str | os.PathLike[str], processes: int) -> int:
    """Makes the rollouts of a checkpoint fit a run of ``processes`` processes, and returns the ``per_device_train_batch_size`` that
    it needs: as many rollouts a micro-step as before, over fewer or more devices. All else must stay, gradient accumulation too.

    The rollouts before are kept beside the new ones, in ``_rollouts-of-<processes before>``. A call that was killed is made again.

    Raises :class:`InvalidError` where ranks are missing, or the rollouts of a micro-step cannot be dealt out evenly.
    """
    folder = os.path.join(os.fspath(checkpoint), FOLDER)
    made = f"{folder}.made"
    if not os.path.isdir(folder) and os.path.isdir(made):
        # Killed between the two renames.
        os.rename(made, folder)
    ranks = sorted(name for name in os.listdir(folder) if name.startswith("rank-"))
    before = [_saved(os.path.join(folder, rank)) for rank in ranks]
    after = _dealt(before, processes)
    if len(before) == processes:
        return int(after[0].shape["per_device_train_batch_size"])
    _remove(made)
    work = f"{folder}.making"
    _remove(work)
    os.makedirs(work)
    merge([os.path.join(folder, rank) for rank in ranks], os.path.join(work, "all"), cursor=None)
    with RolloutStore.open(os.path.join(work, "all")) as store:
        every = set(store.ids().tolist())
        store.checkpoint(os.path.join(work, "saved"))
    for rank, saved in enumerate(after):
        _make_rank(work, rank, saved, every)
    os.rename(os.path.join(work, "ranks"), made)
    _remove(f"{folder}-of-{len(ranks)}")
    os.rename(folder, f"{folder}-of-{len(ranks)}")
    os.rename(made, folder)
    _remove(work)
    return int(after[0].shape["per_device_train_batch_size"])


def _make_rank(work: str, rank: int, saved: Saved, every: set[int]) -> None:
    """One rank's checkpoint: links to what all ranks had, without what is not its own."""
    path = os.path.join(work, "rank")
    _remove(path)
    RolloutStore.restore(os.path.join(work, "saved"), path)
    own: set[int] = set() if saved.window is None else set(saved.window.ids)
    with RolloutStore.open(path) as store:
        others = sorted(every - own)
        if others:
            store.retire(others, "other")
        store.set_cursor(saved.to_bytes())
        if sorted(store.ids().tolist()) != sorted(own):
            raise InvalidError(f"rank {rank} lacks rollouts of its own: they are in no rank of the checkpoint")
        os.makedirs(os.path.join(work, "ranks"), exist_ok=True)
        store.checkpoint(os.path.join(work, "ranks", f"rank-{rank:05}"))


def _saved(path: str) -> Saved:
    with RolloutStore.open(path, read_only=True) as store:
        if store.cursor is None:
            raise InvalidError(f"{path} holds no state of a trainer")
        return Saved.from_bytes(store.cursor)


def _dealt(before: Sequence[Saved], processes: int) -> list[Saved]:
    """What each new rank finds. Rollouts of a slice are dealt out in the order of the ranks that had them."""
    world = before[0].shape["world_size"] if before else 0
    if len(before) != world or processes < 1:
        raise InvalidError(f"the checkpoint has rollouts of {len(before)} ranks, it was saved by {world}; {processes} are wanted")
    first = before[0]
    at = [(saved.shape, saved.micro_step, saved.generation, saved.epochs, saved.layout) for saved in before]
    if any(other != at[0] for other in at):
        raise InvalidError("the ranks of the checkpoint do not stand at the same place: it is no checkpoint of one step")
    rows = first.shape["per_device_train_batch_size"] * world
    if rows % processes:
        raise InvalidError(f"a micro-step has {rows} rollouts on {world} processes, which {processes} cannot share evenly")
    shape = {**first.shape, "world_size": processes, "per_device_train_batch_size": rows // processes}
    order = [_cut([id for ids in slices for id in ids], processes) for slices in zip(*(saved.order for saved in before), strict=True)]
    windows = [saved.window for saved in before if saved.window is not None]
    ids = _cut([id for window in windows for id in window.ids], processes)
    if order:
        ids = [[id for slice in order for id in slice[rank]] for rank in range(processes)]
    return [
        replace(
            first,
            shape=shape,
            order=[slice[rank] for slice in order],
            window=None if first.window is None else _window(windows, ids[rank]),
        )
        for rank in range(processes)
    ]


def _window(windows: Sequence[Window], ids: list[int]) -> Window:
    """The part of a generation that one new rank has."""
    unrestorable = next((window.unrestorable for window in windows if window.unrestorable), None)
    stored = set[int].intersection(*(window.stored for window in windows))
    return replace(windows[0], ids=ids, unrestorable=unrestorable, stored=stored, captured={})


def _cut(ids: list[int], parts: int) -> list[list[int]]:
    """Parts of the same length, in order; the last ones may be shorter."""
    length = -(-len(ids) // parts)
    return [ids[part * length : (part + 1) * length] for part in range(parts)]


def _remove(path: str) -> None:
    shutil.rmtree(path, ignore_errors=True)
