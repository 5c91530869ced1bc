"""Goal: a store is saved under a URL and comes back from there. Method: a directory as object storage, and services that refuse."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
import rollstore
from conftest import logps, tokens
from rollstore import RolloutStore


def fill(store: RolloutStore, ids: list[int], step: int) -> None:
    lens = [3] * len(ids)
    store.insert(ids, step, completion_ids=tokens(*lens), old_logps=logps(*lens), old_version=store.ref_version)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/bucket/shard-0"


def test_a_store_comes_back_from_where_it_was_sent(tmp_path: Path, url: str) -> None:
    with RolloutStore.open(tmp_path / "rollouts", window=8) as store:
        fill(store, [1, 2], 100)
        first = store.checkpoint(url, keep=2)
        fill(store, [3], 101)
        second = store.checkpoint(url, keep=2)
        assert first > 0 and second > 0
        assert store.checkpoint(url, keep=2) == 0, "everything is there"
    RolloutStore.restore(url, tmp_path / "newest")
    rollstore.restore(url, tmp_path / "second", number=2)
    for path in (tmp_path / "newest", tmp_path / "second"):
        with RolloutStore.open(path, resume_step=101) as store:
            assert store.ids().tolist() == [1, 2, 3] and store.staleness([1, 2, 3], 101).fresh.all()
    with pytest.raises(rollstore.NotFoundError, match="0000000001"):
        rollstore.restore(url, tmp_path / "ended", number=1)
    assert not (tmp_path / "ended").exists()


def test_a_path_stays_a_path(tmp_path: Path) -> None:
    with RolloutStore.open(tmp_path / "rollouts", window=8) as store:
        fill(store, [1], 100)
        odd = Path(tmp_path, "file:", "x")
        assert store.checkpoint(odd) == 0 and odd.is_dir()
        with pytest.raises(rollstore.InvalidError, match="keep is for checkpoints under a URL"):
            store.checkpoint(tmp_path / "saved", keep=3)
    with pytest.raises(rollstore.InvalidError, match="number is for checkpoints under a URL"):
        rollstore.restore(tmp_path / "file:" / "x", tmp_path / "again", number=1)
    rollstore.restore(odd, tmp_path / "again")


def test_mistakes_are_exceptions_that_name_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    with RolloutStore.open(tmp_path / "rollouts", window=8) as store:
        for url in ("s3://hush:hush@bucket/run", "s3://bucket/run?key=hush", "ftp://hush/x"):
            with pytest.raises(rollstore.InvalidError) as refused:
                store.checkpoint(url)
            assert "hush:" not in str(refused.value) and "key=hush" not in str(refused.value)
        assert len(store) == 0


def test_other_threads_run_meanwhile(tmp_path: Path, url: str) -> None:
    with RolloutStore.open(tmp_path / "rollouts", window=8) as store:
        fill(store, list(range(1000)), 100)
        done = threading.Event()
        thread = threading.Thread(target=lambda: (store.checkpoint(url), done.set()))
        thread.start()
        fill(store, [5000], 100)
        thread.join()
        assert done.is_set() and len(store) == 1001
