"""Every part of TransferQueue that this package reads, calls or overrides.

For the type checker alone: at run time the real classes are taken. What is not listed here is not touched, so that a new version of
TransferQueue is read against one page.
"""

from __future__ import annotations

from typing import Any


class StorageKVClient:
    """The surface of `transfer_queue.storage.clients.base.StorageKVClient`."""

    config: Any

    def __init__(self, config: Any) -> None: ...


class KVStorageManager:
    """The surface of `transfer_queue.storage.managers.base.KVStorageManager`."""

    storage_client: Any

    def __init__(self, controller_info: Any, config: Any, zmq_context: Any = None) -> None: ...
    @staticmethod
    def _generate_keys(field_names: list[str], global_indexes: list[int]) -> list[str]: ...
    @staticmethod
    def _generate_values(data: Any) -> list[Any]: ...
    def _merge_tensors_to_tensordict(self, metadata: Any, values: list[Any]) -> Any: ...
    async def notify_data_update(
        self, partition_id: str, global_indexes: list[int], field_schema: Any, custom_backend_meta: Any = None
    ) -> None: ...


class BatchMeta:
    """The surface of `transfer_queue.metadata.BatchMeta`."""

    global_indexes: list[int]
    partition_ids: list[str]
    field_names: list[str]
    custom_meta: list[dict[str, Any]]


class StorageKeyNotFoundError(KeyError):
    """Raised where a key was never put, or cleared meanwhile."""


class Controller:
    """The surface of `transfer_queue.controller.TransferQueueController`, and of what it holds."""

    partitions: dict[str, Any]
    index_manager: Any
