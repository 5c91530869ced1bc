"""A storage backend for TransferQueue, the data plane of verl: what was put is there after a crash.

::

    import rollstore.transferqueue  # registers the backend

    transfer_queue.init({"backend": {"storage_backend": "Rollstore", "Rollstore": {"path": "/data/run/queue"}}})

Only the process that calls ``transfer_queue.init`` first imports it: the others do when the controller hands them the configuration.
``docs/verl.md`` has the lines for verl. It takes TransferQueue 0.1.11.
"""

from ._modules import module, require_transferqueue

require_transferqueue()

from ._bootstrap import BACKEND, initialize  # noqa: E402
from ._client import RollstoreClient  # noqa: E402
from ._manager import CLIENT, RollstoreManager  # noqa: E402

__all__ = ["RollstoreClient", "RollstoreManager"]

module("transfer_queue.storage.clients.base").StorageClientFactory.register(CLIENT)(RollstoreClient)
module("transfer_queue.storage.managers.base").StorageManagerFactory.register(BACKEND)(RollstoreManager)
module("transfer_queue.storage.bootstrap").StorageBootstrapProvider.register_provider(BACKEND)(initialize)
