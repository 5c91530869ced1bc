"""The storage manager: what TransferQueue's client calls with batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._calls import Origin, Sample, tags_of
from ._client import RollstoreClient
from ._modules import module

ray = module("ray")

if TYPE_CHECKING:
    from ._surface import BatchMeta, KVStorageManager
else:
    KVStorageManager = module("transfer_queue.storage.managers.base").KVStorageManager

CLIENT = "RollstoreClient"

CONTROLLER = "TransferQueueController"
"""The name of TransferQueue's controller among the actors."""

_FOLDER = "rollstore"
"""Where a checkpoint of TransferQueue has that of the store."""


class RollstoreManager(KVStorageManager):
    """TransferQueue's manager of key-value clients, which also tells the store what the controller knows of a sample: the partition,
    the caller's key and the tags that come with a put. That is what :mod:`._recovery` hands back to a new controller.

    The event loop goes on while the store works.
    """

    storage_client: RollstoreClient

    def __init__(self, controller_info: Any, config: Any, zmq_context: Any = None) -> None:
        super().__init__(controller_info, {**dict(config or {}), "client_name": CLIENT}, zmq_context=zmq_context)
        self._controller: Any = None

    async def put_data(self, data: Any, metadata: BatchMeta, data_parser: Callable[[Any], Any] | None = None) -> None:
        """Stores the fields of a batch, and then says that they are there."""
        if data_parser is not None:
            raise NotImplementedError("a data_parser is TransferQueue's SimpleStorage's alone: parse the data before the put")
        indexes = metadata.global_indexes
        if data.batch_size[0] != len(indexes):
            raise ValueError(f"the data has {data.batch_size[0]} rows, the metadata {len(indexes)} samples")
        if not indexes:
            return
        partition = metadata.partition_ids[0]
        # Asked now, so that the answer is there when the values are.
        keys = self._keys_of(partition, indexes)
        samples: dict[Sample, dict[str, Any]] = {index: {} for index in indexes}
        values = iter(self._generate_values(data))
        for name in sorted(data.keys()):
            for index in indexes:
                samples[index][name] = next(values)
        await _elsewhere(self._put, samples, metadata, keys)
        schema = module("transfer_queue.metadata").extract_field_schema(data)
        await self.notify_data_update(partition, indexes, schema, {})

    def _keys_of(self, partition: str, indexes: list[int]) -> Any:
        """The caller's keys of samples, as the controller will tell."""
        if self._controller is None:
            self._controller = ray.get_actor(CONTROLLER, namespace="transfer_queue")
        return self._controller.kv_retrieve_keys.remote(indexes, partition)

    def _put(self, samples: dict[Sample, dict[str, Any]], metadata: BatchMeta, asked: Any) -> None:
        indexes = metadata.global_indexes
        keys: list[str | None] = ray.get(asked) or [None] * len(indexes)
        origins: dict[Sample, Origin] = {
            index: Origin(partition, key, tags_of(index, tags))
            for index, partition, key, tags in zip(indexes, metadata.partition_ids, keys, metadata.custom_meta, strict=True)
        }
        self.storage_client.put_samples(samples, origins)

    async def get_data(self, metadata: BatchMeta) -> Any:
        """The fields of a batch."""
        keys = self._generate_keys(metadata.field_names, metadata.global_indexes)
        return self._merge_tensors_to_tensordict(metadata, await _elsewhere(self.storage_client.get, keys))

    async def clear_data(self, metadata: BatchMeta) -> None:
        """Ends the samples of a batch, with all their fields: the controller forgets whole samples, whatever fields are named."""
        await _elsewhere(self.storage_client.owner.clear_samples, metadata.global_indexes)

    async def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Saves the store with a checkpoint of TransferQueue: by links, without a copy, where both are on one file system."""
        await _elsewhere(self.storage_client.owner.checkpoint, str(Path(checkpoint_dir).absolute() / _FOLDER))

    async def load_checkpoint(self, checkpoint_dir: str) -> None:
        """Brings the store back to exactly what a checkpoint of TransferQueue was saved with."""
        await _elsewhere(self.storage_client.owner.restore, str(Path(checkpoint_dir).absolute() / _FOLDER))


async def _elsewhere(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns, which is called on another thread than that of the event loop."""
    return await asyncio.get_running_loop().run_in_executor(None, function, *arguments)
