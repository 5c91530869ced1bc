"""A checkpoint of a service is one cut through all shards: complete or absent, of one version, with one cursor, and no batch split.

The coordinator ends at every stage of a checkpoint; what lay on disk at that moment is looked at, and so is what came of the call, which
is sent again. Then checkpoints are taken while clients write.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rollstore import DamagedError, InvalidError, RolloutStore, StoreNotFoundError
from rollstore.ray import RolloutService, _directory
from rollstore.ray._coordinator import Coordinator
from rollstore.ray._place import at
from service_cluster import cluster, dying, kill, services  # noqa: F401

SHARDS, BATCH = 3, 30
STAGES = {
    "begin": "before _hold",
    "held": "after _hold",
    "taken": "after _take",
    "carried": "after _carry",
    "published": "after _publish",
}
Open = Callable[..., RolloutService]


class Fragile(RolloutService):
    """A service whose coordinator ends where it is told."""

    _coordinator_class: Any = dying(__name__, Coordinator, STAGES)


def told_by(root: str | Path) -> tuple[set[int], int]:
    """Ids and version of the newest cut at a root, each shard brought back by itself."""
    place = at(str(root))
    cut = place.complete(None)
    place.check_whole(cut)
    ids: set[int] = set()
    for shard in range(cut.shards):
        with tempfile.TemporaryDirectory() as folder:
            place.bring_back(cut, shard, Path(folder, "shard"))
            with RolloutStore.open(Path(folder, "shard"), read_only=True) as store:
                ids |= set(store.ids().tolist())
    return ids, cut.version


@pytest.fixture
def fragile(tmp_path: Path, services: Open) -> RolloutService:  # noqa: F811
    return services(tmp_path, kind=Fragile, shards=SHARDS)


@pytest.mark.parametrize("form", ["", "file://"], ids=["directory", "objects"])
def test_killed_at_every_stage_it_is_the_one_before_or_complete(
    tmp_path: Path, fragile: RolloutService, form: str
) -> None:
    folder = tmp_path / "watched"
    root = f"{form}{folder}"
    fragile.insert(range(BATCH), 1, completion_ids=[[1]] * BATCH)
    fragile.checkpoint(root)
    for number, stage in enumerate(STAGES, start=1):
        before = told_by(root)
        first = number * BATCH
        fragile.insert(range(first, first + BATCH), 1, completion_ids=[[1]] * BATCH)
        version = fragile.advance_ref_version(number)
        (tmp_path / f"die-at-{stage}").touch()
        fragile.checkpoint(root)  # the kill is in it; Ray sends the call again
        assert not (tmp_path / f"die-at-{stage}").exists(), f"{stage} was not reached"
        now = told_by(root)
        assert now == (set(range(first + BATCH)), version)
        frozen = tmp_path / "frozen"
        assert told_by(f"{form}{frozen}") == (now if stage == "published" else before), stage
        frozen.rename(tmp_path / f"frozen-{stage}")
        if not form:
            assert len(list(folder.glob("cut-*"))) == 1, "left-overs are cleared"
    assert not list(tmp_path.glob("shard-*.cut-*")) and not list(tmp_path.glob("coordinator.cut-*"))


def test_a_shard_that_is_killed_meanwhile_delays_it(tmp_path: Path, services: Open) -> None:  # noqa: F811
    service = services(tmp_path / "service", shards=SHARDS)
    service.insert(range(BATCH), 1, completion_ids=[[1]] * BATCH)
    stop = threading.Event()

    def killing() -> None:
        while not stop.wait(0.3):
            kill(service, 1)
            break

    killer = threading.Thread(target=killing)
    killer.start()
    for number in range(5):
        service.checkpoint(tmp_path / "ckpt")
        assert told_by(tmp_path / "ckpt")[0] == set(range(BATCH)), number
    stop.set()
    killer.join()


def test_no_batch_is_split(tmp_path: Path, services: Open) -> None:  # noqa: F811
    service = services(tmp_path / "service", shards=SHARDS)
    stop = threading.Event()
    written = [0, 0]

    def write(client: int) -> None:
        while not stop.is_set():
            first = (client * 100_000 + written[client]) * BATCH
            service.insert(range(first, first + BATCH), 1, completion_ids=[[1]] * BATCH)
            written[client] += 1

    writers = [threading.Thread(target=write, args=(client,)) for client in range(2)]
    for writer in writers:
        writer.start()
    seen = 0
    for _ in range(8):
        acknowledged = sum(written) * BATCH
        service.checkpoint(tmp_path / "ckpt")
        ids = np.array(sorted(told_by(tmp_path / "ckpt")[0]))
        assert len(ids) >= acknowledged, "what was acknowledged before it is in it"
        batches, counts = np.unique(ids // BATCH, return_counts=True)
        assert (counts == BATCH).all(), f"batches are split: {batches[counts != BATCH]}"
        seen = len(batches)
    stop.set()
    for writer in writers:
        writer.join()
    assert seen > 4, "too little was written to show anything"


def test_it_brings_back_rollouts_version_and_cursor(tmp_path: Path, services: Open) -> None:  # noqa: F811
    service = services(tmp_path / "service", shards=SHARDS)
    ids = range(BATCH)
    logps: list[Any] = [np.full(2, -0.5, np.float32)] * BATCH
    version = service.advance_ref_version(5, label=50)
    service.insert(ids, 5, old_logps=logps, old_version=version)
    service.set_cursor(b"here")
    service.checkpoint(tmp_path / "ckpt")
    service.retire(range(5))
    service.advance_ref_version(6)
    service.set_cursor(b"there")
    name = service.name
    service.close()

    nodes = [{"resources": {"disk-a": 0.001}}, {"resources": {"disk-b": 0.001}}]
    with pytest.raises(InvalidError, match="rollstore reshard"):
        RolloutService.restore(tmp_path / "ckpt", tmp_path / "service", name=name, nodes=nodes, shards=2)
    RolloutService.restore(tmp_path / "ckpt", tmp_path / "service", name=name, nodes=nodes)
    again = services(tmp_path / "service", shards=SHARDS)
    assert again.ids().tolist() == list(ids)
    assert (again.cursor, again.ref_version, again.ref_version_of(50)) == (b"here", version, version)
    assert again.staleness(ids, 5).fresh.all(), "what was fresh then is fresh now"
    assert again.advance_ref_version(6) > version + 1, "no version of the abandoned future comes again"
    assert again.staleness(ids, 6).stale.all() and (again.staleness(ids, 6).lag == 1).all()


def test_a_restore_that_was_cut_is_done_to_its_end_whoever_opens_wrongly_in_between(tmp_path: Path, services: Open) -> None:  # noqa: F811
    service = services(tmp_path / "service", shards=SHARDS)
    service.insert(range(BATCH), 1, completion_ids=[[1]] * BATCH)
    service.checkpoint(tmp_path / "ckpt")
    service.insert(range(100, 100 + BATCH), 1, completion_ids=[[1]] * BATCH)
    service.close()
    # As a kill leaves it.
    begun = tmp_path / "service" / "restoring.json"
    begun.write_text(json.dumps({"checkpoint": str(tmp_path / "ckpt"), "number": None, "opening": "killed"}))
    with pytest.raises(InvalidError, match="rollstore reshard"):
        services(tmp_path / "service", shards=2)
    assert begun.exists()
    again = services(tmp_path / "service", shards=SHARDS)
    assert again.ids().tolist() == list(range(BATCH)) and not begun.exists()


def test_what_is_no_checkpoint_is_refused(tmp_path: Path, services: Open) -> None:  # noqa: F811
    service = services(tmp_path / "service", shards=1)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    with pytest.raises(InvalidError, match="is no checkpoint"):
        service.checkpoint(tmp_path / "other")
    with pytest.raises(StoreNotFoundError, match="no complete checkpoint"):
        RolloutService.restore(tmp_path / "nowhere", tmp_path / "service", name="other")
    service.checkpoint(tmp_path / "ckpt")
    manifest = tmp_path / "ckpt" / _directory.MANIFEST
    manifest.write_text(manifest.read_text().replace('"version": 0', '"version": 1'))
    with pytest.raises(DamagedError, match="checksum"):
        RolloutService.restore(tmp_path / "ckpt", tmp_path / "service", name="other")
