"""What Python programs keep rollouts in, each behind the same few calls.

Each is used as well as its documentation says how: :class:`Peer` subclasses state their settings and what their commit
promises. Who measures them is ``peers.py``.
"""

from __future__ import annotations

import os
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

WIDTH = 1024
Rows = list[np.ndarray]


class Peer(ABC):
    """A store in a folder, of rollouts with log-probs (float32) and token ids (int32)."""

    settings: ClassVar[str]
    guarantee: ClassVar[str]

    @abstractmethod
    def __init__(self, folder: Path, rollouts: int) -> None:
        """Opens what is there, or makes it, for so many rollouts at most."""

    @abstractmethod
    def put(self, ids: np.ndarray, logps: Rows, tokens: Rows) -> None:
        """One batch, on the device when this returns."""

    @abstractmethod
    def get(self, id: int) -> np.ndarray:
        """The log-probs of one rollout; valid until the next call."""

    @abstractmethod
    def tokens(self, id: int) -> np.ndarray:
        """Its token ids."""

    def gather(self, ids: np.ndarray, out: np.ndarray) -> None:
        """The log-probs of these, padded with zeros."""
        out.fill(0)
        for row, id in enumerate(ids.tolist()):
            values = self.get(id)
            out[row, : len(values)] = values


class Rollstore(Peer):
    settings = "all defaults; a batch is one `insert`; `store[id].old_logps`; `gather`"
    guarantee = "a commit is all or nothing, checksummed, and found after power loss"

    def __init__(self, folder: Path, rollouts: int) -> None:
        from rollstore import RolloutStore

        self.store = RolloutStore.open(folder / "store", window=8)

    def put(self, ids: np.ndarray, logps: Rows, tokens: Rows) -> None:
        self.store.insert(ids, 0, completion_ids=tokens, old_logps=logps, old_version=0)

    def get(self, id: int) -> np.ndarray:
        return self.store[id].old_logps

    def tokens(self, id: int) -> np.ndarray:
        return self.store[id].completion_ids

    def gather(self, ids: np.ndarray, out: np.ndarray) -> None:
        self.store.gather(ids, "old_logps", out, step=0)


class Lmdb(Peer):
    settings = "default sync flags; one transaction a batch; reads are buffers of one open read transaction"
    guarantee = "a transaction is all or nothing and synced; no checksums"

    def __init__(self, folder: Path, rollouts: int) -> None:
        import lmdb

        self.env = lmdb.open(str(folder / "lmdb"), map_size=1 << 32)
        self.reads: Any = None

    def put(self, ids: np.ndarray, logps: Rows, tokens: Rows) -> None:
        if self.reads is not None:
            self.reads.abort()
            self.reads = None
        with self.env.begin(write=True) as batch:
            for id, row, of_row in zip(ids.tolist(), logps, tokens, strict=True):
                batch.put(id.to_bytes(8, "big"), row.tobytes() + of_row.tobytes())

    def _value(self, id: int) -> Any:
        if self.reads is None:
            self.reads = self.env.begin(buffers=True)
        return self.reads.get(id.to_bytes(8, "big"))

    def get(self, id: int) -> np.ndarray:
        value = self._value(id)
        return np.frombuffer(value, np.float32, len(value) // 8)

    def tokens(self, id: int) -> np.ndarray:
        value = self._value(id)
        return np.frombuffer(value, np.int32, len(value) // 8, len(value) // 2)


class Sqlite(Peer):
    settings = "WAL, synchronous=FULL, pages of 32 KiB, mmap; one transaction a batch; blobs by integer primary key"
    guarantee = "a transaction is all or nothing and synced; the WAL alone has checksums"

    def __init__(self, folder: Path, rollouts: int) -> None:
        import sqlite3

        self.db = sqlite3.connect(folder / "db", isolation_level=None)
        for pragma in ("page_size=32768", "journal_mode=WAL", "synchronous=FULL", f"mmap_size={1 << 32}"):
            self.db.execute(f"PRAGMA {pragma}")
        self.db.execute("CREATE TABLE IF NOT EXISTS rollouts (id INTEGER PRIMARY KEY, logps BLOB, tokens BLOB)")

    def put(self, ids: np.ndarray, logps: Rows, tokens: Rows) -> None:
        rows = ((id, row.data, of_row.data) for id, row, of_row in zip(ids.tolist(), logps, tokens, strict=True))
        self.db.execute("BEGIN")
        self.db.executemany("INSERT INTO rollouts VALUES (?, ?, ?)", rows)
        self.db.execute("COMMIT")

    def get(self, id: int) -> np.ndarray:
        (value,) = self.db.execute("SELECT logps FROM rollouts WHERE id = ?", (id,)).fetchone()
        return np.frombuffer(value, np.float32)

    def tokens(self, id: int) -> np.ndarray:
        (value,) = self.db.execute("SELECT tokens FROM rollouts WHERE id = ?", (id,)).fetchone()
        return np.frombuffer(value, np.int32)


class Torchrl(Peer):
    settings = (
        "`LazyMemmapStorage`: fixed rows of 1,024, padded when they are put; a slice is set a batch; `dumps` to its own "
        "folder writes its length; one thread of torch"
    )
    guarantee = "it syncs nothing: here each of its files is synced after each batch. A crash within a batch leaves a part of it"

    def __init__(self, folder: Path, rollouts: int) -> None:
        import torch
        from tensordict import TensorDict
        from torchrl.data import LazyMemmapStorage

        torch.set_num_threads(1)  # more are slower at rows of this size
        self.torch, self.TensorDict, self.folder = torch, TensorDict, folder / "storage"
        is_new = not self.folder.exists()
        self.storage: Any = LazyMemmapStorage(rollouts, scratch_dir=str(self.folder), existsok=True, auto_cleanup=False)
        if not is_new:
            self.storage.loads(self.folder)

    def put(self, ids: np.ndarray, logps: Rows, tokens: Rows) -> None:
        padded = np.zeros((2, len(ids), WIDTH), np.float32)
        of_tokens = padded[1].view(np.int32)
        for row, (values, of_row) in enumerate(zip(logps, tokens, strict=True)):
            padded[0, row, : len(values)] = values
            of_tokens[row, : len(of_row)] = of_row
        parts = {"logps": padded[0], "tokens": of_tokens, "len": np.array([len(row) for row in logps])}
        batch = self.TensorDict({name: self.torch.from_numpy(part) for name, part in parts.items()}, [len(ids)])
        self.storage.set(range(int(ids[0]), int(ids[-1]) + 1), batch)
        self.storage.dumps(self.folder)
        for file in self.folder.iterdir():
            _sync(file)
        _sync(self.folder)

    def get(self, id: int) -> np.ndarray:
        row = self.storage.get(id)
        return row["logps"][: int(row["len"])].numpy()

    def tokens(self, id: int) -> np.ndarray:
        row = self.storage.get(id)
        return row["tokens"][: int(row["len"])].numpy()

    def gather(self, ids: np.ndarray, out: np.ndarray) -> None:
        # Rows are padded where they lie. A slice is a view: the other columns are not read.
        rows = self.storage.get(slice(None))["logps"]
        self.torch.index_select(rows, 0, self.torch.from_numpy(ids.astype(np.int64)), out=self.torch.from_numpy(out))


class _Files(Peer):
    """A file a batch, with the rows of each column behind each other; an index in memory says which file has which rollout."""

    guarantee = "a batch is a file that is written, synced and renamed, and its folder is synced; no checksums"

    def __init__(self, folder: Path, rollouts: int) -> None:
        self.folder, self.open, self.index = folder, dict[Path, Any](), dict[int, tuple[Path, int, int]]()
        self.load()
        for file in sorted(folder.glob("batch-*")):
            self._add(file)

    @abstractmethod
    def load(self) -> None:
        """Imports what it needs."""

    @abstractmethod
    def write(self, file: Path, columns: dict[str, np.ndarray]) -> None: ...

    @abstractmethod
    def read(self, file: Path) -> Callable[[str, int, int], np.ndarray]:
        """Opens a file: gives a part of one of its columns."""

    def _add(self, file: Path) -> None:
        self.open[file] = part = self.read(file)
        end, ids = 0, part("ids", 0, 1 << 30)
        for id, length in zip(ids.tolist(), part("lens", 0, len(ids)).tolist(), strict=True):
            self.index[id] = file, end, end + length
            end += length

    def put(self, ids: np.ndarray, logps: Rows, tokens: Rows) -> None:
        lens = np.array([len(row) for row in logps], np.int64)
        columns = {"ids": ids.astype(np.int64), "lens": lens, "logps": np.concatenate(logps), "tokens": np.concatenate(tokens)}
        name, file = self.folder / "new", self.folder / f"batch-{len(self.open):06}"
        self.write(name, columns)
        _sync(name)
        name.rename(file)
        _sync(self.folder)
        self._add(file)

    def get(self, id: int) -> np.ndarray:
        file, begin, end = self.index[id]
        return self.open[file]("logps", begin, end)

    def tokens(self, id: int) -> np.ndarray:
        file, begin, end = self.index[id]
        return self.open[file]("tokens", begin, end)


class TorchSave(_Files):
    settings = "a file a batch, flat tensors; `torch.load(mmap=True)`, kept open"

    def load(self) -> None:
        import torch

        self.torch = torch

    def write(self, file: Path, columns: dict[str, np.ndarray]) -> None:
        self.torch.save({name: self.torch.from_numpy(column) for name, column in columns.items()}, file)

    def read(self, file: Path) -> Callable[[str, int, int], np.ndarray]:
        columns = {name: column.numpy() for name, column in self.torch.load(file, mmap=True, weights_only=True).items()}
        return lambda name, begin, end: columns[name][begin:end]


class Safetensors(_Files):
    settings = "a file a batch, flat tensors; `safe_open` with NumPy, kept open, `get_slice` of a row"

    def load(self) -> None:
        import safetensors.numpy

        self.safetensors = safetensors

    def write(self, file: Path, columns: dict[str, np.ndarray]) -> None:
        self.safetensors.numpy.save_file(columns, str(file))

    def read(self, file: Path) -> Callable[[str, int, int], np.ndarray]:
        opened = self.safetensors.safe_open(str(file), framework="numpy")
        slices = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118
        return lambda name, begin, end: slices[name][begin : min(end, slices[name].get_shape()[0])]


class Pickle(_Files):
    settings = "a file a batch, flat arrays, protocol 5; everything is loaded into memory, and read there"

    def load(self) -> None:
        pass

    def write(self, file: Path, columns: dict[str, np.ndarray]) -> None:
        with file.open("wb") as out:
            pickle.dump(columns, out, protocol=5)

    def read(self, file: Path) -> Callable[[str, int, int], np.ndarray]:
        with file.open("rb") as opened:
            columns = pickle.load(opened)
        return lambda name, begin, end: columns[name][begin:end]


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


PEERS: dict[str, type[Peer]] = {
    "rollstore": Rollstore,
    "torchrl": Torchrl,
    "lmdb": Lmdb,
    "sqlite3": Sqlite,
    "torch.save": TorchSave,
    "safetensors": Safetensors,
    "pickle": Pickle,
}
