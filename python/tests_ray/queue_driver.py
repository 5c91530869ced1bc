"""A driver of its own: ``put PATH`` puts until it is killed, and says when a round returned; ``serve PATH`` prints what there is."""

from __future__ import annotations

import itertools
import json
import sys

from local import TWO_CORES  # before Ray, which reads the environment

import ray
import rollstore.transferqueue  # noqa: F401: registers the backend
import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from tensordict import TensorDict

ROWS = 4


def put() -> None:
    for number in itertools.count():
        keys = [f"{number}-{row}" for row in range(ROWS)]
        fields = {"number": torch.full((ROWS, 1000), number), "text": [f"text of {key}" for key in keys]}
        early = TensorDict(fields, batch_size=ROWS)
        tq.kv_batch_put(keys=keys, partition_id="train", fields=early, tags=[{"number": number}] * ROWS)
        late = TensorDict({"reward": torch.full((ROWS,), number / 2)}, batch_size=ROWS)
        tq.kv_batch_put(keys=keys, partition_id="train", fields=late)
        if number % 3 == 2:
            tq.kv_clear(keys=keys, partition_id="train")
        print(number, flush=True)


def serve() -> None:
    tags = tq.kv_list("train")["train"]
    whole = {}
    for key, tag in tags.items():
        found = tq.kv_batch_get(keys=[key], partition_id="train")
        if "reward" not in found.keys():
            continue  # The kill came between the two puts.
        numbers = set(found["number"].unbind()[0].tolist())
        whole[key] = [tag["number"], sorted(numbers), found["reward"].flatten().tolist(), list(found["text"])]
    print(json.dumps(whole))


if __name__ == "__main__":
    ray.init(**TWO_CORES)
    tq.init(OmegaConf.create({"backend": {"storage_backend": "Rollstore", "Rollstore": {"path": sys.argv[2]}}}))
    {"put": put, "serve": serve}[sys.argv[1]]()
    tq.close()
    ray.shutdown()
