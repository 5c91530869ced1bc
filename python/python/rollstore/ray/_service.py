"""The service."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from .._opened import number_of
from .._saving import only_under_a_url, url_of
from .._store import RolloutStore
from ..errors import InvalidError, LockedError, NotFoundError
from ._answers import NAMESPACE, Config, shard_name
from ._calls import Calls
from ._cluster import exceptions, ray
from ._coordinator import GROUPS as COORDINATOR_GROUPS
from ._coordinator import Coordinator
from ._cut import Where
from ._errors import ShardUnavailableError
from ._gauges import waits_counter
from ._handle import Handle
from ._place import at
from ._pressure import Pressure
from ._shard import GROUPS as SHARD_GROUPS
from ._shard import Shard

ACTOR: dict[str, Any] = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1}
"""What all actors of a service have: they come back, and calls to them are sent again. Each call is done once: see
:class:`OpId`."""

SKEW = 1
"""Steps by which a born step may lie ahead, unless the options say otherwise: the store's own default."""

CALLS_IN_FLIGHT = 64
"""Calls to shards: several for each of some threads, and few enough that 256 clients do not bury a shard."""

BYTES_IN_FLIGHT = 1 << 30
"""Bytes of inserts and results: some of the largest steps, and a small part of the object store of a node."""

UPDATE_LEASE = 60.0
"""Seconds without a sign of life, of which there is one every five, after which a weight update has ended."""

CLOSE_MAX = 30.0
"""Seconds that the end of a service waits until all stores are closed."""


class RolloutService(RolloutStore):
    """A store on the machines of a Ray cluster: :meth:`open` one, or :meth:`attach` to one. Its calls are those of
    :class:`rollstore.RolloutStore`.

    One actor for each shard owns an embedded store on its node's disk. Clients may be copied into tasks and actors.
    """

    _coordinator_class: type[Coordinator] = Coordinator
    _shard_class: type[Shard] = Shard

    def __init__(self, handle: Handle, name: str, limits: tuple[int, int, float], *, is_owner: bool) -> None:
        super().__init__(handle)  # pyright: ignore[reportArgumentType]  # the one seam: it answers as the native half does
        self.name = name
        """The service's name, by which other jobs attach to it."""
        self._handle, self._limits, self._is_owner = handle, limits, is_owner

    @classmethod
    def open(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls,
        path: str | os.PathLike[str],
        *,
        name: str = "rollstore",
        shards: int | None = None,
        nodes: Sequence[Mapping[str, Any]] | None = None,
        detached: bool = False,
        calls_in_flight: int = CALLS_IN_FLIGHT,
        bytes_in_flight: int = BYTES_IN_FLIGHT,
        timeout: float = 600.0,
        update_lease: float = UPDATE_LEASE,
        resume_step: int | None = None,
        **options: Any,
    ) -> RolloutService:
        """Opens the stores in a directory of each node's own disk, and creates them where there are none.

        Args:
            path: the directory, on every node. Shard ``i`` lies in ``path/shard-i`` of its node.
            name: the service's name in the cluster.
            shards: the number of shards; that of the nodes unless given. It stays: ``rollstore reshard`` changes it.
            nodes: where shards live: options of Ray actors that find one node each and find it again, as
                ``{"resources": {"disk-a": 0.001}}`` or ``{"label_selector": {"disk": "a"}}``. Shard ``i`` goes to entry
                ``i % len(nodes)``, the coordinator to the first. Unless given: the nodes that are there, by their addresses.
            detached: whether the service outlives the job; :meth:`shutdown` ends it then.
            calls_in_flight: calls to shards that this client has in flight at most; others wait.
            bytes_in_flight: bytes of inserts and results that it has in flight at most.
            timeout: seconds that a call waits for actors that are away before it raises :class:`ShardUnavailableError`.
            update_lease: seconds after which a weight update ends, and advances, whose client gave no sign of life.
            resume_step: the step that the trainer resumes at; a service that is further is refused.
            options: those of :meth:`RolloutStore.open`, for every shard: ``window`` and so on.

        Raises:
            LockedError: a service of this name runs: attach to it.
            InvalidError: another number of shards than there are.
        """
        limits = calls_in_flight, bytes_in_flight, timeout
        return cls._start(path, name, shards, nodes, detached, limits, update_lease, options, None, resume_step)

    @classmethod
    def _start(
        cls,
        path: str | os.PathLike[str],
        name: str,
        shards: int | None,
        nodes: Sequence[Mapping[str, Any]] | None,
        detached: bool,
        limits: tuple[int, int, float],
        lease: float,
        options: dict[str, Any],
        restore: Where | None,
        resume_step: int | None,
    ) -> RolloutService:
        if options.pop("read_only", False):
            raise InvalidError("a service opens for writing; read a shard's own directory beside it")
        places = [dict(node) for node in nodes] if nodes is not None else _nodes_here()
        count = len(places) if shards is None else shards
        if count < 1 or not places:
            raise InvalidError(f"a service needs a shard and a node, here are {count} and {len(places)}")
        config = Config(name, str(Path(path).absolute()), count, options, restore, secrets.token_hex(8), lease)
        lifetime = {"lifetime": "detached"} if detached else {}
        actors: list[Any] = []
        wanted: list[tuple[str, type, Any, tuple[Any, ...]]] = [(name, cls._coordinator_class, COORDINATOR_GROUPS, (config,))]
        wanted += [(shard_name(name, shard), cls._shard_class, SHARD_GROUPS, (config, shard)) for shard in range(count)]
        try:
            for place, (actor_name, kind, groups, args) in enumerate(wanted):
                options_of = {**ACTOR, **lifetime, **places[max(place - 1, 0) % len(places)]}
                made: Any = ray.remote(concurrency_groups=groups)(kind)
                actors.append(made.options(name=actor_name, namespace=NAMESPACE, **options_of).remote(*args))
        except exceptions.ActorAlreadyExistsError as error:
            _kill(actors)
            raise LockedError(f"a service {name!r} runs in this cluster: attach to it, or shut it down ({error})") from None
        try:
            service = cls._client(name, limits, is_owner=not detached)
            service._actors = actors
            clock = service.clock
            if resume_step is not None and clock is not None and clock > resume_step:
                raise InvalidError(
                    f"store is at step {clock}, the trainer resumes at {resume_step}; restore a checkpoint, or rewind to step "
                    f"{resume_step} and keep or drop what came after"
                )
        except BaseException:
            _kill(actors)
            raise
        return service

    _actors: Sequence[Any] = ()
    """Handles of who opened it: actors that are not detached live as long as these."""

    @classmethod
    def attach(
        cls, name: str = "rollstore", *, calls_in_flight: int = CALLS_IN_FLIGHT, bytes_in_flight: int = BYTES_IN_FLIGHT, timeout: float = 600.0
    ) -> RolloutService:
        """A client of a service that runs in this cluster. Arguments are those of :meth:`open`; closing it ends nothing.

        Raises :class:`NotFoundError` where there is none of this name.
        """
        return cls._client(name, (calls_in_flight, bytes_in_flight, timeout), is_owner=False)

    @classmethod
    def _client(cls, name: str, limits: tuple[int, int, float], *, is_owner: bool) -> RolloutService:
        try:
            coordinator: Any = ray.get_actor(name, NAMESPACE)
        except ValueError:
            raise NotFoundError(f"no service {name!r} runs in this cluster") from None
        calls_max, bytes_max, timeout = limits
        try:
            config: Config = ray.get(coordinator.config.remote(), timeout=timeout)
        except exceptions.GetTimeoutError:
            raise ShardUnavailableError(f"the coordinator of service {name!r} did not answer within {timeout:g} s") from None
        counter = waits_counter(name)
        calls = Calls(name, config.shards, Pressure(calls_max, bytes_max, lambda: counter.inc()), timeout)
        calls.look()
        stats = calls.read_all("stats")[0][0]
        skew = config.options.get("step_skew")
        handle = Handle(calls, stats["window"], stats["max_version_lag"], SKEW if skew is None else skew)
        handle.path = config.path
        return cls(handle, name, limits, is_owner=is_owner)

    @staticmethod
    def restore(  # pyright: ignore[reportIncompatibleMethodOverride]
        checkpoint: str | os.PathLike[str],
        path: str | os.PathLike[str],
        *,
        number: int | None = None,
        name: str = "rollstore",
        shards: int | None = None,
        nodes: Sequence[Mapping[str, Any]] | None = None,
        timeout: float = 600.0,
    ) -> None:
        """Brings a checkpoint of a service back into the directories of its nodes, as :meth:`RolloutStore.restore` does for one
        store: what was fresh at the checkpoint is fresh again. The service must not run. Of a URL it is the newest checkpoint, or
        the one of a number: ``rollstore checkpoints URL/coordinator`` lists them.

        All shards come back; where that is cut, the next opening brings the rest. Arguments are those of :meth:`open`.

        Raises:
            NotFoundError: no complete checkpoint there.
            DamagedError: one of which something is damaged.
            InvalidError: another number of shards than it has.
        """
        url = url_of(checkpoint)
        if url is None:
            only_under_a_url("number", number)
        cut = at(url or os.path.abspath(checkpoint)).complete(number_of(number, "number"))
        limits = CALLS_IN_FLIGHT, BYTES_IN_FLIGHT, timeout
        count = shards or cut.shards
        RolloutService._start(path, name, count, nodes, False, limits, UPDATE_LEASE, {}, cut.where, None).close()

    def _new_batch(self) -> Any:
        return self._handle.begin_batch()

    def close(self) -> None:
        """Ends this client; and the service, where this client opened it and it is not detached."""
        if self._is_owner:
            self._is_owner = False
            self.shutdown()

    def shutdown(self) -> None:
        """Ends the service for all clients: every store is closed, every actor ends. One whose node is away is not waited for long:
        it loses nothing by it."""
        calls = self._handle.calls
        try:
            ray.get(calls.actors[0].close.remote(), timeout=min(CLOSE_MAX, calls.timeout))
        except (exceptions.GetTimeoutError, exceptions.RayActorError):
            pass
        _kill(calls.actors)

    @property
    def in_flight(self) -> Mapping[str, int]:
        """What this client had in flight at most, and how many of its calls waited for room."""
        pressure = self._handle.calls.pressure
        return {"peak_calls": pressure.peak_calls, "peak_bytes": pressure.peak_bytes, "waits": pressure.waits}

    def __enter__(self) -> RolloutService:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _attached, (type(self), self.name, self._limits)

    def __repr__(self) -> str:
        return f"<RolloutService {self.name!r} at {self.path!r}>"


def _attached(cls: type[RolloutService], name: str, limits: tuple[int, int, float]) -> RolloutService:
    calls, size, timeout = limits
    return cls.attach(name, calls_in_flight=calls, bytes_in_flight=size, timeout=timeout)


def _nodes_here() -> list[dict[str, Any]]:
    """The nodes of the cluster by their addresses, which they have again after a restart."""
    alive = [node for node in ray.nodes() if node["Alive"]]
    addresses = sorted({node["NodeManagerAddress"] for node in alive})
    if len(addresses) != len(alive):
        raise InvalidError("several nodes have one address: say by nodes= how each is found again, by a resource or a label")
    return [{"resources": {f"node:{address}": 0.001}} for address in addresses]


def _kill(actors: Sequence[Any]) -> None:
    for actor in actors:
        ray.kill(actor, no_restart=True)
