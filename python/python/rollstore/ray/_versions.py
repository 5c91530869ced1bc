"""Version numbers: the service's, and those that one shard's store gave to the same versions."""

from __future__ import annotations

from collections.abc import Iterable


class Versions:
    """Which of the store's own versions stands for which of the service's.

    Both count up by one with each advance, and jump where a restore or rewind abandoned some: runs of ``(service, own, count)``
    hold all of it in a few numbers.
    """

    def __init__(self, runs: Iterable[Iterable[int]] = ((0, 0, 1),)) -> None:
        self.runs: list[list[int]] = [list(run) for run in runs]

    @property
    def current(self) -> int:
        """The service's version that the store is at."""
        service, _, count = self.runs[-1]
        return service + count - 1

    def pushed(self, service: int, own: int) -> Versions:
        """These and one more, which is current then."""
        runs = [list(run) for run in self.runs]
        last = runs[-1]
        if (last[0] + last[2], last[1] + last[2]) == (service, own):
            last[2] += 1
        else:
            runs.append([service, own, 1])
        return Versions(runs)

    def issued(self, services: list[int], last: int) -> Versions:
        """These and more, which one commit issued in a row; ``last`` is the store's own number of the last."""
        versions = self
        for place, service in enumerate(services):
            versions = versions.pushed(service, last - len(services) + 1 + place)
        return versions

    def after(self, service: int) -> list[int]:
        """The service's versions above one, oldest first."""
        return [number for begin, _, count in self.runs for number in range(max(begin, service + 1), begin + count)]

    def own(self, service: int) -> int | None:
        """The store's own number; ``None`` for a version that was never issued."""
        for begin, own, count in reversed(self.runs):
            if begin <= service < begin + count:
                return own + service - begin
        return None

    def service(self, own: int) -> int:
        """The service's number of one of the store's versions.

        A version of the store that is nobody's (it lies between two of a rewind) counts as the one before it.
        """
        for service, begin, count in reversed(self.runs):
            if own >= begin:
                return service + min(own - begin, count - 1)
        return self.runs[0][0]
