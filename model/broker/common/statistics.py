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


class RequestStatistics:
    """Counts completed requests; writes one fact per API for each second that had any."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.sums: dict[str, list[int]] = {}
        """API to [count, errors, queue time, remote time, slowest], times in µs."""

    def start(self, now: int) -> None:
        """Report every second from now on."""
        self.process.timers.arm("request-stats", now + PERIOD_US, "scheduler", self._report)

    def count(self, api: str, failed: bool, received_us: int, started_us: int, now: int) -> None:
        """Add a request that was received, whose handler ran, and that is answered ``now``."""
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
