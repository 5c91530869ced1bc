"""A store on many machines: one embedded store a node, behind a client with the calls of :class:`rollstore.RolloutStore`.

Ray starts, restarts and reaches the actors; nothing here opens a port of its own::

    import ray
    from rollstore.ray import RolloutService

    ray.init()
    service = RolloutService.open("/local/rollouts", window=8, shards=4)
    service.insert([1, 2], created_step=100, completion_ids=[[5, 6, 7], [8, 9]])

``docs/ray.md`` says what it guarantees, and what differs from one store.
"""

from ._errors import ShardLostError, ShardUnavailableError
from ._service import RolloutService

__all__ = ["RolloutService", "ShardLostError", "ShardUnavailableError"]
