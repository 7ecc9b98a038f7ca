"""Rates over sampled windows: Kafka's Rate and SimpleRate, each over a WindowedSum (SampledStat).

Times are in milliseconds. A window is a sample; one more is kept than is measured, because a sample
that began before the measured time and overlaps it still counts (3.8; before, it was dropped).
"""

from __future__ import annotations

from kafkasim.model.values import value


@value
class Windows:
    """How many samples a rate has, and how long each of them is."""

    count: int = 11  # quota.window.num, replication.quota.window.num
    size_ms: int = 1000  # quota.window.size.seconds, replication.quota.window.size.seconds


DEFAULT = Windows()


class _Sample:
    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        """Empty the sample."""
        self.value = 0.0
        self.start_ms = self.last_ms = now_ms


class Rate:
    """What was recorded a second, of all windows but the last one as if they were complete."""

    __slots__ = ("_current", "_samples", "_windows")

    def __init__(self, windows: Windows = DEFAULT) -> None:
        self._windows = windows
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Count a value; a negative one takes back what was recorded."""
        sample = self._sample(now_ms)
        if now_ms - sample.start_ms >= self._windows.size_ms:
            sample = self._advance(now_ms)
        sample.value += value
        sample.last_ms = now_ms

    def measure(self, now_ms: int) -> float:
        """Return the rate a second."""
        self._purge(now_ms)
        total = sum([sample.value for sample in self._samples])
        return total / (self.window_ms(now_ms) / 1000)

    def window_ms(self, now_ms: int) -> int:
        """Return the time that the rate is measured over.

        By default a first burst counts over ten seconds.
        """
        count, size_ms = self._windows.count, self._windows.size_ms
        elapsed = self._elapsed_ms(now_ms)
        lacking = count - 1 - elapsed // size_ms
        return max(elapsed + max(lacking, 0) * size_ms, 1)

    def _elapsed_ms(self, now_ms: int) -> int:
        """Return how long ago the oldest sample began."""
        self._purge(now_ms)
        self._sample(now_ms)
        return now_ms - min([sample.start_ms for sample in self._samples])

    def _sample(self, now_ms: int) -> _Sample:
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        return self._samples[self._current]

    def _advance(self, now_ms: int) -> _Sample:
        self._current = (self._current + 1) % (self._windows.count + 1)
        if self._current == len(self._samples):
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._current].reset(now_ms)
        return self._samples[self._current]

    def _purge(self, now_ms: int) -> None:
        kept_ms = self._windows.count * self._windows.size_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= kept_ms:
                sample.reset(now_ms)


class SimpleRate(Rate):
    """What was recorded a second, over the time since the oldest sample, at least one window."""

    __slots__ = ()

    def window_ms(self, now_ms: int) -> int:
        """Return the time that the rate is measured over."""
        return max(self._elapsed_ms(now_ms), self._windows.size_ms)


def throttle_time_ms(rate: Rate, limit: float, now_ms: int) -> int:
    """Return after how long what was recorded is within a limit (QuotaUtils.throttleTime).

    That is (rate − limit) / limit × the measured window. A limit of 0, which ZooKeeper mode
    accepts, throttles nobody: Kafka's conversion to int makes −1 of the infinite time.
    """
    measured = rate.measure(now_ms)
    if measured <= limit or not limit:
        return 0
    return int((measured - limit) / limit * rate.window_ms(now_ms) + 0.5)
