"""Goal: every kind of error is an exception of this package and of Python, survives a pickle, and leaves the handle usable.

Method: each kind is provoked on a real store, also in a thread; damage is a flipped byte in its log.
"""

from __future__ import annotations

import errno
import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rollstore
from conftest import logps, tokens
from rollstore import RolloutStore, errors


def raised(call: Callable[[], Any]) -> BaseException:
    """What a call raises in a thread of its own."""
    caught: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return caught[0]


def check(error: BaseException, kind: type[Exception], also: type[Exception], **attributes: Any) -> None:
    assert type(error) is kind and isinstance(error, rollstore.Error) and isinstance(error, also)
    again = pickle.loads(pickle.dumps(error))
    for other in (error, again):
        assert type(other) is kind and str(other) == str(error) and other.kind == kind.kind
        for name, value in attributes.items():
            assert getattr(other, name) == value, name


def test_a_store_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "none"
    error = raised(lambda: RolloutStore.open(path, create=False))
    check(error, rollstore.StoreNotFoundError, FileNotFoundError, path=str(path), errno=errno.ENOENT)
    assert isinstance(error, rollstore.NotFoundError) and not path.exists()


def test_a_store_that_another_writes(store: RolloutStore) -> None:
    error = raised(lambda: RolloutStore.open(store.path))
    check(error, rollstore.LockedError, OSError, path=store.path)
    assert str(os.getpid()) in str(error)


def test_options_that_do_not_fit(tmp_path: Path) -> None:
    check(raised(lambda: RolloutStore.open(tmp_path / "s")), rollstore.InvalidError, ValueError)
    check(raised(lambda: RolloutStore.open(tmp_path / "s", window=8, segment_bytes=1)), rollstore.InvalidError, ValueError)
    check(raised(lambda: RolloutStore.open(tmp_path / "s", window=-1)), rollstore.InvalidError, ValueError)


def test_another_run(tmp_path: Path) -> None:
    RolloutStore.open(tmp_path / "s", window=8, run_identity="qwen3-8b, T = 1").close()
    check(raised(lambda: RolloutStore.open(tmp_path / "s", run_identity="llama")), rollstore.InvalidError, ValueError)
    RolloutStore.open(tmp_path / "s", run_identity=b"qwen3-8b, T = 1").close()


def test_a_full_store_goes_on_once_there_is_room(tmp_path: Path) -> None:
    with RolloutStore.open(tmp_path / "s", window=8, segment_bytes=1 << 16, quota_bytes=1 << 18) as store:
        next_id = iter(range(10_000))

        def fill() -> None:
            while True:
                store.insert([next(next_id)], 100, completion_ids=tokens(2000))

        check(raised(fill), rollstore.FullError, OSError, errno=errno.ENOSPC)
        store.retire_created_before(101)
        store.compact()
        store.insert([20_000], 100, completion_ids=tokens(2000))
        assert len(store) == 1


def test_damage_says_where(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with RolloutStore.open(path, window=8) as store:
        marked = np.full(64, 0xABCDEF01, np.uint32)
        store.insert([1, 2], 100, completion_ids=[marked, np.arange(4)], old_logps=logps(64, 4), old_version=0)
    for log in path.iterdir():
        data = bytearray(log.read_bytes())
        at = data.find(marked.tobytes())
        if at >= 0:
            data[at + 100] ^= 1
            log.write_bytes(data)
            damaged = log
    with RolloutStore.open(path) as store:
        error = raised(lambda: store[1].completion_ids)
        check(error, rollstore.DamagedError, OSError, path=str(damaged))
        assert isinstance(error, rollstore.DamagedError) and error.offset is not None
        assert raised(lambda: store.gather([2, 1], "completion_ids")).row == 1  # pyright: ignore[reportAttributeAccessIssue]
        assert store[1].old_logps.size == 64 and store[2].completion_ids.tolist() == [0, 1, 2, 3]
        seen = store.verify()
    assert not seen.is_sound and [finding.ids for finding in seen.findings] == [[1]]


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = RolloutStore.open(tmp_path / "s", window=8)
    store.insert([1], 100)
    store.close()
    store.close()
    calls: list[Callable[[], Any]] = [
        lambda: store.get(1),
        lambda: store.insert([2], 100),
        lambda: store.plan_for([1], 100),
        lambda: store.gather([1], "prompt_ids"),
        lambda: store.checkpoint(tmp_path / "c"),
        lambda: store.stats(),
    ]
    for call in calls:
        check(raised(call), rollstore.InvalidError, ValueError)


def test_a_read_only_store_refuses_writes(store: RolloutStore) -> None:
    store.insert([1], 100, completion_ids=tokens(3))
    with RolloutStore.open(store.path, read_only=True) as reader:
        check(raised(lambda: reader.insert([2], 100)), rollstore.InvalidError, ValueError)
        assert reader[1].completion_ids.tolist() == [0, 1, 2]


def test_every_class_can_be_pickled() -> None:
    for name in errors.__all__:
        cls = getattr(rollstore, name)
        error = cls("what, where", path="/x", id=7, row=3, errno=5, offset=64)
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.path, again.id, again.row) == (cls, "row 3: what, where", "/x", 7, 3)
        assert (again.errno, again.offset, again.args) == (5, 64, error.args)


def test_a_failure_of_the_native_half_is_an_exception() -> None:
    made = errors._from_native("a kind of a later version", "what")  # pyright: ignore[reportPrivateUsage]
    check(made, rollstore.InternalError, RuntimeError)
