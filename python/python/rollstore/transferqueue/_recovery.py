"""What TransferQueue's controller knows lies in its memory alone. A new one is told again what the store has.

Each sample comes back under the index that it had, in its partition, with its key, its tags and its fields: as put and not consumed.
Indexes that nobody has are not handed out again, so that groups of neighbouring indexes never mix two runs. Which task had
consumed what is not known: only a checkpoint of TransferQueue has that.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from ._modules import module
from ._values import Blobs, Tree, decode, is_tensor, torch

if TYPE_CHECKING:
    from ._surface import Controller


def adopt(controller: Controller, records: list[bytes]) -> int:
    """Runs in the process of a new controller: tells it the samples of these records, and returns how many they are."""
    partitions: dict[str, dict[int, _Sample]] = {}
    for record in sorted(map(json.loads, records), key=lambda record: record["at"]):
        samples = partitions.setdefault(record["partition"], {})
        samples.setdefault(record["sample"], _Sample()).add(record)
    for name, samples in partitions.items():
        partition = module("transfer_queue.controller").DataPartitionStatus(partition_id=name)
        controller.partitions[name] = partition
        indexes = sorted(samples)
        controller.index_manager.partition_to_indexes[name].update(indexes)
        controller.index_manager.allocated_indexes.update(indexes)
        controller.index_manager.global_index_counter = max(controller.index_manager.global_index_counter, indexes[-1] + 1)
        for index in indexes:
            if samples[index].key is not None:
                partition.keys_mapping[samples[index].key] = index
                partition.revert_keys_mapping[index] = samples[index].key
        partition.set_custom_meta({index: samples[index].tags for index in indexes})
        for field in sorted({field for sample in samples.values() for field in sample.fields}):
            trees = {index: samples[index].fields[field] for index in indexes if field in samples[index].fields}
            _adopt_field(partition, field, trees)
    return sum(map(len, partitions.values()))


class _Sample:
    """What the records of a sample say together; the later one counts."""

    def __init__(self) -> None:
        self.key: str | None = None
        self.tags: dict[str, Any] = {}
        self.fields: dict[str, Tree] = {}

    def add(self, record: dict[str, Any]) -> None:
        self.key = record["key"]
        self.tags = decode(record["tags"], Blobs(np.empty(0, np.uint8)))
        self.fields |= record["fields"]


def _adopt_field(partition: Any, field: str, trees: dict[int, Tree]) -> None:
    """Says that a field is there, as the puts did."""
    tensors = {index: tree for index, tree in trees.items() if is_tensor(tree)}
    others = [index for index in trees if index not in tensors]
    if tensors:
        _produced(partition, list(tensors), field, _tensor_schema(tensors))
    if others:
        _produced(partition, others, field, {"dtype": None, "shape": None, "is_nested": False, "is_non_tensor": True})


def _tensor_schema(trees: dict[int, Tree]) -> dict[str, Any]:
    # Values without a dimension came from a column of one number each, of which TransferQueue says [1].
    shapes = {index: tuple[int, ...](tree["shape"]) or (1,) for index, tree in trees.items()}
    dtype = getattr(torch, next(iter(trees.values()))["dtype"])
    schema: dict[str, Any] = {"dtype": dtype, "is_nested": len(set(shapes.values())) > 1, "is_non_tensor": False}
    if schema["is_nested"]:
        return schema | {"shape": None, "per_sample_shapes": shapes}
    return schema | {"shape": torch.Size(next(iter(shapes.values())))}


def _produced(partition: Any, indexes: list[int], field: str, schema: dict[str, Any]) -> None:
    if not partition.update_production_status(indexes, [field], {field: schema}):
        raise RuntimeError(f"TransferQueue's controller refused {field!r} of partition {partition.partition_id!r}; its log says why")
