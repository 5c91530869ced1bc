"""The owner: the one process that has the store open, as a Ray actor; and the ways to it.

Always true:
- One owner a store. It stays on the machine where the files are, and Ray starts it again there, with its data.
- A call that was cut off by its end is made again: each leaves the same behind when it is made twice.
- A client has no more than so many calls at the owner at once, and none carries more than so many bytes where it can be divided.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol

from ._calls import Found, Put, Sample
from ._modules import module
from ._samples import Samples
from ._settings import Address, Settings

ray = module("ray")

NAMESPACE = "transfer_queue"
"""Where TransferQueue's own actors are named, too."""

NAME = "RollstoreOwner"

_THREADS = 8
"""Calls that the owner works on at once: reads beside each other and beside one commit."""


class Owner(Protocol):
    """What can be asked of an owner, wherever it is."""

    def put(self, put: Put) -> None: ...
    def get(self, keys: Sequence[tuple[Sample, str]], bytes_max: int) -> Found: ...
    def clear(self, keys: Sequence[tuple[Sample, str]]) -> None: ...
    def clear_samples(self, samples: Sequence[Sample]) -> None: ...
    def clear_all(self) -> int: ...
    def records(self) -> list[bytes]: ...
    def checkpoint(self, path: str) -> None: ...
    def restore(self, path: str) -> None: ...
    def stats(self) -> dict[str, Any]: ...
    def close(self) -> None: ...


class RemoteOwner:
    """An owner in another process. It can be used from any thread."""

    def __init__(self, actor: Any, calls: int) -> None:
        self._actor = actor
        self._slots = threading.BoundedSemaphore(calls)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._actor, name)

        def call(*arguments: Any) -> Any:
            with self._slots:
                try:
                    return ray.get(method.remote(*arguments))
                except ray.exceptions.RayTaskError as error:
                    # What the store raised, as it raised it; Ray's own says where.
                    raise (error.cause or error) from error

        return call


def start(settings: Settings) -> tuple[Any, Address]:
    """Starts the owner on this machine, in place of the one of an earlier initialisation, and waits until it has the store."""
    _end_earlier()
    node = module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy(
        ray.get_runtime_context().get_node_id(), soft=False
    )
    actor = (
        ray.remote(Samples)
        .options(
            name=NAME,
            namespace=NAMESPACE,
            num_cpus=settings.owner_cpus,
            max_concurrency=_THREADS,
            max_restarts=-1,
            max_task_retries=-1,
            scheduling_strategy=node,
        )
        .remote(settings)
    )
    try:
        ray.get(actor.stats.remote())
    except ray.exceptions.ActorDiedError as error:
        raise RuntimeError(f"the owner of {settings.path} could not start: {error}") from error
    return actor, Address(NAME, NAMESPACE)


def connect(settings: Settings) -> Owner:
    """The owner that the settings name, or the store itself, in this process, where they name none."""
    if settings.owner is None:
        return Samples(settings)
    if not ray.is_initialized():
        raise RuntimeError("Ray is not initialised: call ray.init() before a client of a store that another process owns")
    remote: Any = RemoteOwner(ray.get_actor(settings.owner.name, namespace=settings.owner.namespace), settings.calls)
    return remote


def _end_earlier() -> None:
    try:
        ray.kill(ray.get_actor(NAME, namespace=NAMESPACE))
    except ValueError:
        return
    # Its name is free when Ray has seen it end.
    while True:
        try:
            ray.get_actor(NAME, namespace=NAMESPACE)
        except ValueError:
            return
