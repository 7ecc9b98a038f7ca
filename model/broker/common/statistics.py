"""Request metrics, summed per API and second (RequestMetrics).

A handler runs at the end of its service time, so what passed until then is queue and local time
together and is reported as ``queue_us``; ``local_us`` is 0 and ``remote_us`` is the time parked.
Group requests are answered by their coordinator and not counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.facts import RequestStats

if TYPE_CHECKING:
    from kafkasim.model.effects import Process

PERIOD_US = 1_000_000


class RequestStatistics:
    """Counts completed requests, and writes a row per API and second that had any."""

    def __init__(self, process: Process) -> None:
        self.process = process
        # api -> [count, errors, queue, remote, slowest]
        self.sums: dict[str, list[int]] = {}

    def start(self, now: int) -> None:
        """Begin the periodic report."""
        self.process.timers.arm("request-stats", now + PERIOD_US, "scheduler", self._report)

    def count(self, api: str, failed: bool, received_us: int, started_us: int, now: int) -> None:
        """Add a completed request."""
        sums = self.sums.get(api)
        if sums is None:
            sums = self.sums[api] = [0, 0, 0, 0, 0]
        total = now - received_us
        sums[0] += 1
        if failed:
            sums[1] += 1
        if started_us != now:
            sums[3] += now - started_us
        sums[2] += started_us - received_us
        if total > sums[4]:
            sums[4] = total

    def _report(self, now: int) -> None:
        self.start(now)
        for api, (count, errors, queue, remote, slowest) in self.sums.items():
            if count:
                self.process.out.append(
                    RequestStats(api, count, errors, queue + remote, queue, 0, remote, slowest)
                )
                self.sums[api] = [0, 0, 0, 0, 0]
