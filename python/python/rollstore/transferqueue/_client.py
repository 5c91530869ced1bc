"""The storage client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._calls import Origin, Put, Sample, batches, rows_of_field, split_key, values_of_field
from ._modules import module
from ._owner import Owner, connect
from ._settings import settings_of

if TYPE_CHECKING:
    from ._surface import StorageKVClient
else:
    StorageKVClient = module("transfer_queue.storage.clients.base").StorageKVClient


class RollstoreClient(StorageKVClient):
    """A client of TransferQueue whose values lie in a store: what :meth:`put` returned from is there after a crash.

    Its configuration is the section ``Rollstore``. With ``owner``, which ``transfer_queue.init`` adds, it calls the process that has
    the store open; without one it opens the store itself, for use in a single process. It may be used from any thread.
    """

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self._settings = settings_of(config)
        self.owner: Owner = connect(self._settings)
        """Who has the store: what else can be asked of it, :class:`.Owner` says."""

    def put(self, keys: list[str], values: list[Any]) -> list[Any] | None:
        """Stores values; of a key that is given twice the last one counts. When it returns, all are as durable as configured.

        Samples with the same fields are one commit, up to ``call_bytes``.

        Raises:
            ValueError: lists of different lengths, or a key that ends with its first ``@``.
            TypeError: a value that cannot be held; the message names its key. Nothing of its commit is stored.
            rollstore.Error: the store cannot write.
        """
        _check(keys=keys, values=values)
        samples: dict[Sample, dict[str, Any]] = {}
        for key, value in zip(keys, values, strict=True):
            sample, field = split_key(key)
            samples.setdefault(sample, {})[field] = value
        self.put_samples(samples)

    def put_samples(self, samples: dict[Sample, dict[str, Any]], origins: dict[Sample, Origin] | None = None) -> None:
        """Stores fields of samples, with where TransferQueue has them."""
        for some, fields in batches(samples, self._settings.call_bytes):
            encoded = [rows_of_field(some, field, [samples[sample][field] for sample in some]) for field in fields]
            known = None if origins is None else [origins[sample] for sample in some]
            self.owner.put(Put(some, known, fields, [trees for trees, _ in encoded], [rows for _, rows in encoded]))

    def get(self, keys: list[str], shapes: Any = None, dtypes: Any = None, custom_backend_meta: Any = None) -> list[Any]:
        """The values of these keys, in their order, equal in type, dtype and bits. They are the caller's own: tensors of one field
        and call share one memory, in which nothing else lies.

        What the store knows of shapes and types is not asked for: the other arguments are not looked at.

        Raises ``transfer_queue.StorageKeyNotFoundError``, a ``KeyError``, for a key that was never put, or is cleared.
        """
        _check(keys=keys)
        wanted = [split_key(key) for key in keys]
        values: list[Any] = []
        while len(values) < len(wanted):
            rest = wanted[len(values) :]
            trees, contents = self.owner.get(rest, self._settings.call_bytes)
            of_field: dict[str, list[Any]] = {}
            for (_, field), tree in zip(rest, trees, strict=False):
                of_field.setdefault(field, []).append(tree)
            decoded = {field: iter(values_of_field(some, *contents[field])) for field, some in of_field.items()}
            values.extend(next(decoded[field]) for _, field in rest[: len(trees)])
        return values

    def clear(self, keys: list[str], custom_backend_meta: Any = None) -> None:
        """Ends values; keys that are not there are passed over."""
        _check(keys=keys)
        self.owner.clear([split_key(key) for key in keys])

    def close(self) -> None:
        """Closes the store where this client has it open itself."""
        if self._settings.owner is None:
            self.owner.close()


def _check(**lists: Any) -> None:
    for name, value in lists.items():
        if not isinstance(value, list):
            raise ValueError(f"{name} is a {type(value).__name__}, it must be a list")
    lens = {name: len(value) for name, value in lists.items()}
    if len(set(lens.values())) > 1:
        raise ValueError(" and ".join(f"{count} {name}" for name, count in lens.items()) + ": there must be as many")
