"""A client has a bounded number of calls and bytes in flight; who comes on top waits.

The room is tried by itself, with calls that stand still, and then by more threads than a service's client lets through.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from rollstore.ray import RolloutService
from rollstore.ray._pressure import Pressure
from service_cluster import cluster, services  # noqa: F401


def test_what_does_not_fit_waits_until_there_is_room() -> None:
    waited = threading.Event()
    pressure = Pressure(4, 100, waited.set)
    entered = threading.Event()

    def enter() -> None:
        with pressure.room(1, 60):
            entered.set()

    with pressure.room(1, 60):
        late = threading.Thread(target=enter)
        late.start()
        assert waited.wait(30) and not entered.is_set(), "120 bytes are more than 100"
    assert entered.wait(30)
    late.join()
    assert (pressure.peak_bytes, pressure.peak_calls, pressure.waits) == (60, 1, 1)


def test_what_is_larger_than_the_bounds_goes_alone() -> None:
    pressure = Pressure(2, 100, lambda: None)
    with pressure.room(5, 1000):
        assert (pressure.peak_calls, pressure.peak_bytes) == (5, 1000)
    assert pressure.waits == 0


def test_many_threads_of_a_client_stay_within_its_bounds(tmp_path: Path, services: Callable[..., RolloutService]) -> None:  # noqa: F811
    service = services(tmp_path, shards=2, calls_in_flight=4, bytes_in_flight=1 << 20)
    begin = threading.Barrier(12)

    def insert(number: int) -> None:
        ids = np.arange(number * 10, number * 10 + 10)
        begin.wait()
        service.insert(ids, 1, completion_ids=[np.zeros(10_000, np.uint32)] * 10)

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(insert, range(12)))
    told = service.in_flight
    assert len(service) == 120
    assert 0 < told["peak_calls"] <= 4 and 0 < told["peak_bytes"] <= 1 << 20
    assert told["waits"] > 0, "twelve threads came at once, two fit"
