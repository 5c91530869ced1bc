"""A shard's figures go to Ray's metrics: what they are of, and that a commit does not look at the store each time.

Ray's own classes are given something that takes numbers down, since nobody collects metrics in a test.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rollstore import RolloutStore

pytest.importorskip("ray")

from rollstore.ray import _gauges  # noqa: E402


class Seen:
    """Every number that a metric was given, by its name."""

    def __init__(self) -> None:
        self.numbers: dict[str, list[float]] = {}
        self.tags: list[dict[str, str]] = []
        self.Gauge = self.Counter = self.metric

    def metric(self, name: str, text: str, keys: tuple[str, ...]) -> Any:
        assert text.endswith(".")
        numbers = self.numbers.setdefault(name, [])

        class Metric:
            def set_default_tags(_, tags: dict[str, str]) -> None:
                assert set(tags) == set(keys)
                self.tags.append(tags)

            def set(_, number: float) -> None:
                numbers.append(number)

            def inc(_) -> None:
                numbers.append(1)

        return Metric()


def test_a_commit_is_counted_and_figures_are_looked_at_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen()
    monkeypatch.setattr(_gauges, "metrics", seen)
    monkeypatch.setattr(_gauges, "EVERY", 1000.0)
    gauges = _gauges.Gauges("run", 3)
    with RolloutStore.open(tmp_path, window=8) as store:
        store.insert([1, 2], 1, old_logps=[[-0.5]] * 2, old_version=0)
        store.advance_ref_version(2)
        for _ in range(3):
            gauges.committed(store)
    assert seen.numbers["rollstore_commits"] == [1, 1, 1]
    assert seen.numbers["rollstore_live"] == [2] and seen.numbers["rollstore_stale"] == [2]
    assert seen.numbers["rollstore_log_bytes"][0] > 0
    assert all(tags == {"service": "run", "shard": "3"} for tags in seen.tags)
