"""A shard's store as its actor keeps it, without the actor: what is acknowledged is on disk, and cuts are of one moment.

Time and failures are put where the machine's own would come too seldom.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rollstore import InvalidError, PoisonedError, RolloutStore
from rollstore._insert import insert_args
from rollstore.ray import ShardUnavailableError, _keeping
from rollstore.ray._answers import Config, Done, Join, OpId, View
from rollstore.ray._cut import Cut, Where
from rollstore.ray._cutting import Cutting, Key
from rollstore.ray._keeping import Keeping
from rollstore.ray._ledger import Entry
from rollstore.ray._place import at
from rollstore.ray._planned import Planned
from rollstore.ray._sweeping import Sweeping

VIEW = View(0, 0, 0)
JOIN = Join("id", VIEW, [[0, 0, 1]], None, None, False, None)


@pytest.fixture
def keeping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Keeping]:
    monkeypatch.setattr(_keeping, "SYNC_AT_LAST", 3600.0)  # what nobody waits for is not on disk by luck
    keeping = Keeping(Config("service", str(tmp_path), 1, {"window": 8}, None, "opening", 60.0), 0, Planned())
    keeping.join(JOIN)
    yield keeping
    keeping.close()


def insert(keeping: Keeping, id: int) -> Any:
    args = insert_args([id], 1, {"completion_ids": [[1, 2]]})
    return keeping.write(VIEW, OpId("client", id, 0, (0,)), [("insert", args, "insert")])


def is_on_disk(keeping: Keeping) -> bool:
    return keeping.store.durable_lsn == keeping.store.stats()["last_lsn"]


def test_what_was_acknowledged_is_on_disk(keeping: Keeping) -> None:
    assert is_on_disk(keeping), "a join"
    assert isinstance(insert(keeping, 1), Done) and is_on_disk(keeping)
    sweeping = Sweeping(keeping._planned)
    query = ("all", 0), "oldest_born_first", False, 0, 8, 0, 1, (None, None, None)
    kind, plan = sweeping.begin("token", keeping, ("sweep", *query))
    assert (kind, plan["ids"].tolist()) == ("plan", [1])
    values = np.full(2, -0.5, np.float32), np.array([0, 2]), None, []
    assert sweeping.go_on("token", values)[0] == "done" and is_on_disk(keeping)
    keeping.control("forget_sweep", ("sweep",))
    assert is_on_disk(keeping)


def test_a_write_whose_sync_failed_is_looked_for_on_disk(keeping: Keeping, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: RolloutStore, lsn: int) -> None:
        raise PoisonedError(f"no sync of {lsn}")

    monkeypatch.setattr(RolloutStore, "wait_durable", fail)
    with pytest.raises(PoisonedError):
        insert(keeping, 1)
    with pytest.raises(ShardUnavailableError):
        keeping.store  # noqa: B018
    monkeypatch.undo()
    keeping.join(JOIN._replace(is_born=True))
    assert isinstance(insert(keeping, 1), Done) and keeping.store.ids().tolist() == [1], "sent again, it is there once"


def test_a_cut_whose_hold_lapsed_is_none(keeping: Keeping) -> None:
    keeping.hold("cut-1")
    keeping._held_until = time.monotonic()
    with pytest.raises(ShardUnavailableError, match="take another cut"):
        keeping.cut("cut-1")
    keeping.hold("cut-2")
    with pytest.raises(ShardUnavailableError):
        keeping.cut("cut-1")
    keeping.release("cut-1")  # late, of a coordinator that was killed
    assert not isinstance(insert(keeping, 1), Done), "the second holds still"
    keeping.cut("cut-2")
    keeping.release("cut-2")
    assert isinstance(insert(keeping, 1), Done)


def test_a_late_transfer_leaves_the_next_cut_alone(keeping: Keeping, tmp_path: Path) -> None:
    for id in ("cut-1", "cut-2"):
        keeping.hold(id)
        keeping.cut(id)
    assert not keeping.staged("cut-1").exists(), "what the first left behind goes with the second"
    with pytest.raises(ShardUnavailableError):
        keeping.carry("cut-1", f"file://{tmp_path}/objects")
    number, size = keeping.carry("cut-2", f"file://{tmp_path}/objects")
    assert number == 1 and size > 0 and not keeping.staged("cut-2").exists()


def test_a_cut_whose_parts_are_not_in_one_place_is_not_published(tmp_path: Path) -> None:
    for root in (str(tmp_path / "seen-by-one"), f"file://{tmp_path}/objects"):
        with pytest.raises(InvalidError, match="all nodes"):
            at(root).check_there(Cut(Where(root, None), "cut-1", "id", 1, 0, [1]))
    with pytest.raises(InvalidError, match="memory of one process"):
        at("memory:///run").check("id")


class Holding(Cutting):
    """Two shards, of which the first has not done what the second remembers."""

    def __init__(self) -> None:
        self.remembered: dict[Key, Entry] = {}
        self.waited: list[Key] = []

    def died(self, client: str) -> None:
        """A client sent a write to the second shard alone."""
        self.remembered[client, 1] = Entry(0, (0, 1), None)

    def _all(self, name: str, *args: Any) -> list[Any]:
        remembered: list[Mapping[Key, Entry]] = [{}, dict(self.remembered)]
        return remembered

    def _each(self, name: str, args: Sequence[tuple[Any, ...]]) -> list[Any]:
        self.waited += [key for ops, _ in args for key in ops]
        return []


def test_a_client_that_died_is_waited_for_once() -> None:
    cutting = Holding()
    for client in ("a", "b"):
        cutting.died(client)
        for _ in range(2):
            cutting._hold("cut")
    assert cutting.waited == [("a", 1), ("b", 1)]
    cutting.remembered.clear()
    cutting._hold("cut")
    assert cutting._given_up == set(), "what no shard remembers need not be remembered"
