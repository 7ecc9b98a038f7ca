"""Request metrics, summed per API and second (RequestMetrics).

A handler runs at the end of its service time, so the time until then is queue time and local time
together. It is reported as ``queue_us``; ``local_us`` is 0, and ``remote_us`` is the time that the
request was parked in a purgatory. Group requests are not counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.facts import RequestStats

if TYPE_CHECKING:
    from kafkasim.model.effects import Process

PERIOD_US = 1_000_000


class _Sums:
    """What is counted of one API; times are in microseconds."""

    __slots__ = ("count", "errors", "queue_us", "remote_us", "slowest_us")

    def __init__(self) -> None:
        self.count = self.errors = self.queue_us = self.remote_us = self.slowest_us = 0


class RequestStatistics:
    """Counts completed requests; writes one fact per API for each second that had any."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.sums: dict[str, _Sums] = {}  # by API

    def start(self, now: int) -> None:
        """Report every second from now on."""
        self.process.timers.arm("request-stats", now + PERIOD_US, "scheduler", self._report)

    def count(self, api: str, failed: bool, received_us: int, started_us: int, now: int) -> None:
        """Add a request that was received, whose handler ran, and that is answered ``now``."""
        sums = self.sums.get(api)
        if sums is None:
            sums = self.sums[api] = _Sums()
        total = now - received_us
        sums.count += 1
        if failed:
            sums.errors += 1
        if started_us != now:
            sums.remote_us += now - started_us
        sums.queue_us += started_us - received_us
        if total > sums.slowest_us:
            sums.slowest_us = total

    def _report(self, now: int) -> None:
        self.start(now)
        for api, sums in self.sums.items():
            if sums.count:
                queue, remote = sums.queue_us, sums.remote_us
                total = queue + remote
                self.process.out.append(
                    RequestStats(
                        api, sums.count, sums.errors, total, queue, 0, remote, sums.slowest_us
                    )
                )
                self.sums[api] = _Sums()
