"""Checkpoints of a service in object storage: they come back from a real S3 server, older ones end as whole cuts, and a node that
comes back with an empty disk gets its shard from there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rollstore import DamagedError, InvalidError, NotFoundError, RolloutStore
from rollstore import _rollstore as native
from rollstore.ray import RolloutService
from service_cluster import cluster, services  # noqa: F401
from third_node import Third, third  # noqa: F401

Open = Callable[..., RolloutService]
URL = "s3://bucket/run"
SHARDS, ROLLOUTS = 2, 40
"""Shard 1 lies on the third node."""


class Bucket:
    """An S3 server, and what who speaks to it needs."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = root / "bucket"
        self._server = subprocess.Popen(
            [os.environ["ROLLSTORE_TEST_S3_SERVER"], root], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._server.stdout is not None
        lines = iter(self._server.stdout.readline, "\n")
        self.environment = dict(line.rstrip().split("=", 1) for line in lines)
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """Where shards live, with the credentials that they need."""
        disks = [{"resources": {name: 0.001}} for name in ("disk-a", "disk-c")]
        return [{**disk, "runtime_env": {"env_vars": self.environment}} for disk in disks]

    def numbers(self, part: str) -> list[int]:
        """The numbers of a part's checkpoints."""
        return [number for number, _ in native.list_checkpoints(f"{URL}/{part}")]

    def files(self, part: str, kind: str) -> list[Path]:
        """What the server keeps of a part: checkpoints or segments, in order."""
        return sorted(path for path in (self.folder / "run" / part / kind).rglob("*") if path.is_file())

    def end(self) -> None:
        self._server.communicate()


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    bucket = Bucket(tmp_path / "server", monkeypatch)
    yield bucket
    bucket.end()


def filled(services: Open, path: Path, bucket: Bucket) -> RolloutService:  # noqa: F811
    service = services(path, nodes=bucket.nodes, shards=SHARDS)
    service.insert(range(ROLLOUTS), 1, completion_ids=[[id, id] for id in range(ROLLOUTS)])
    return service


def test_a_node_that_comes_back_with_an_empty_disk_gets_its_shard_from_there(
    tmp_path: Path, bucket: Bucket, third: Third, services: Open  # noqa: F811
) -> None:
    service = filled(services, tmp_path / "local", bucket)
    version = service.advance_ref_version(2)
    service.insert([100, 101, 102, 103], 2, old_logps=[[-0.5]] * 4, old_version=version)
    assert service.checkpoint(URL) > 0
    service.advance_ref_version(3)
    shards = [RolloutStore.open(tmp_path / "local" / f"shard-{shard}", read_only=True) for shard in range(SHARDS)]
    assert all(len(shard) > 0 for shard in shards)

    third.remove()
    shutil.rmtree(tmp_path / "local" / "shard-1")
    third.add()

    kept = service.gather_flat(range(ROLLOUTS), "completion_ids")
    assert kept.values.tolist() == [id for id in range(ROLLOUTS) for _ in range(2)]
    assert (service.staleness([100, 101, 102, 103], 3).lag == 1).all(), "it did the advance that it had missed"
    assert any("shard 1 lost its disk" in warning for warning in service.warnings())
    service.insert([300, 301, 302], 3, completion_ids=[[1]] * 3)
    assert len(service) == ROLLOUTS + 7


def test_every_node_may_be_another_one(tmp_path: Path, bucket: Bucket, third: Third, services: Open) -> None:  # noqa: F811
    service = filled(services, tmp_path / "local", bucket)
    service.set_cursor(b"here")
    first = service.checkpoint(URL)
    service.insert(range(100, 140), 2, completion_ids=[[1]] * 40)
    service.set_cursor(b"there")
    assert 0 < service.checkpoint(URL) < first, "only what is new is sent"
    name = service.name
    service.close()
    for number, count, cursor in ((None, ROLLOUTS + 40, b"there"), (1, ROLLOUTS, b"here")):
        path = tmp_path / f"other-{number}"
        RolloutService.restore(URL, path, number=number, name=name, nodes=bucket.nodes)
        with services(path, nodes=bucket.nodes, shards=SHARDS) as again:
            assert (len(again), again.cursor) == (count, cursor)
            shutil.rmtree(path / "shard-1")
        again = services(path, nodes=bucket.nodes, shards=SHARDS)
        assert len(again) == count, "what it was restored from is its last checkpoint"
        again.close()


def test_older_checkpoints_end_whole(tmp_path: Path, bucket: Bucket, third: Third, services: Open) -> None:  # noqa: F811
    service = filled(services, tmp_path / "local", bucket)
    # As a kill leaves it: a shard's part of a cut that never was.
    native.send_checkpoint(staged(tmp_path, service), f"{URL}/shard-0", "")
    for number in range(4):
        service.insert([200 + number * 10 + each for each in range(8)], 1, completion_ids=[[1]] * 8)
        service.checkpoint(URL, keep=2)
    assert (bucket.numbers("coordinator"), bucket.numbers("shard-0"), bucket.numbers("shard-1")) == ([3, 4], [4, 5], [3, 4])
    with pytest.raises(NotFoundError, match="0000000002"):
        RolloutService.restore(URL, tmp_path / "other", number=2, name="other")
    name = service.name
    service.close()
    RolloutService.restore(URL, tmp_path / "again", number=3, name=name, nodes=bucket.nodes)
    assert len(services(tmp_path / "again", nodes=bucket.nodes, shards=SHARDS)) == ROLLOUTS + 24


def staged(tmp_path: Path, service: RolloutService) -> Path:
    """A checkpoint of shard 0 by itself."""
    service.checkpoint(tmp_path / "directory")
    (cut,) = (tmp_path / "directory").glob("cut-*")
    return cut / "shard-0"


def test_what_is_no_cut_of_it_is_refused(tmp_path: Path, bucket: Bucket, third: Third, services: Open) -> None:  # noqa: F811
    service = filled(services, tmp_path / "local", bucket)
    with pytest.raises(NotFoundError, match="there is no checkpoint under s3://bucket/run/coordinator"):
        RolloutService.restore(URL, tmp_path / "other", name="other")
    service.checkpoint(URL)
    stranger = services(tmp_path / "stranger", nodes=bucket.nodes, shards=1)
    with pytest.raises(InvalidError, match="of another service"):
        stranger.checkpoint(URL)
    with RolloutStore.open(tmp_path / "alone", window=8) as alone:
        alone.insert([1], 1, completion_ids=[np.ones(1, np.uint32)])
        alone.checkpoint("s3://bucket/alone/coordinator")
    with pytest.raises(InvalidError, match="is none of a service"):
        RolloutService.restore("s3://bucket/alone", tmp_path / "other", name="other")


def test_a_restore_that_cannot_be_done_changes_nothing_and_keeps_no_other_away(
    tmp_path: Path, bucket: Bucket, third: Third, services: Open  # noqa: F811
) -> None:
    service = filled(services, tmp_path / "local", bucket)
    name = service.name
    service.checkpoint(URL)
    service.checkpoint(URL)
    service.insert([1000], 1, completion_ids=[[1]])
    service.close()
    newest = bucket.files("shard-1", "checkpoints")[-1]
    whole = newest.read_bytes()
    newest.write_bytes(whole[:-1])
    with pytest.raises(DamagedError, match=r"shard-1/checkpoints/0000000002 is damaged"):
        RolloutService.restore(URL, tmp_path / "local", name=name, nodes=bucket.nodes)
    unchanged = services(tmp_path / "local", nodes=bucket.nodes, shards=SHARDS, name=name)
    assert len(unchanged) == ROLLOUTS + 1, "what was refused does not happen later"
    unchanged.close()
    newest.write_bytes(whole)

    segment = bucket.files("shard-1", "segments")[0]
    bytes_of = segment.read_bytes()
    segment.write_bytes(bytes_of[:-1] + bytes([bytes_of[-1] ^ 1]))
    with pytest.raises(DamagedError, match="shard-1/segments"):
        RolloutService.restore(URL, tmp_path / "again", name=name, nodes=bucket.nodes)
    segment.write_bytes(bytes_of)
    RolloutService.restore(URL, tmp_path / "again", number=1, name=name, nodes=bucket.nodes)
    assert len(services(tmp_path / "again", nodes=bucket.nodes, shards=SHARDS)) == ROLLOUTS


def test_a_damaged_checkpoint_does_not_keep_the_next_one_away(
    tmp_path: Path, bucket: Bucket, third: Third, services: Open  # noqa: F811
) -> None:
    service = filled(services, tmp_path / "local", bucket)
    service.checkpoint(URL)
    for part in ("coordinator", "shard-1"):
        bucket.files(part, "checkpoints")[-1].write_bytes(b"")
    service.insert([1000], 1, completion_ids=[[1]])
    service.checkpoint(URL)
    name = service.name
    service.close()
    RolloutService.restore(URL, tmp_path / "again", name=name, nodes=bucket.nodes)
    assert len(services(tmp_path / "again", nodes=bucket.nodes, shards=SHARDS)) == ROLLOUTS + 1
