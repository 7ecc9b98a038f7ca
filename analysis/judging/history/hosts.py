"""Hosts: which processes are up or paused, their time limits, and how fast their clocks run."""

from __future__ import annotations

from kafkasim.model import facts

MILLION = 1_000_000


class Hosts:
    """All hosts of a run, as the trace tells of them."""

    def __init__(self) -> None:
        self.up: dict[str, bool] = {}
        self.started: dict[str, int] = {}  # the row in which its last process started
        self.paused_until_us: dict[str, int] = {}
        self.set_clocks: dict[str, None] = {}  # whose wall clock was set, or drifts
        self._limits: dict[tuple[str, str], int] = {}
        self._rates: dict[str, list[tuple[int, int]]] = {}  # node -> (since, drift in ppm)

    def limit_us(self, node: str, config: str) -> int | None:
        """Return a time limit that a node was started with last, None if it told none."""
        return self._limits.get((node, config))

    def elapsed_us(self, node: str, since: int, until: int) -> int:
        """Return how much time passed on a node's clock between two simulated times, in µs."""
        rates = self._rates.get(node)
        if rates is None:
            return until - since
        total, end = until - since, until
        for start, drift in reversed(rates):
            if start < end and drift:
                begin = max(start, since)
                total += (end - begin) * drift // MILLION
            end = min(end, start)
            if end <= since:
                break
        return total

    def on_HostStarted(self, seq: int, _t: int, node: str, _fact: facts.HostStarted) -> None:
        """A process runs on the host."""
        self.up[node] = True
        self.started[node] = seq

    def on_HostStopped(self, _seq: int, _t: int, node: str, _fact: facts.HostStopped) -> None:
        """No process runs on the host; a pause is over with it."""
        self.up[node] = False
        self.paused_until_us.pop(node, None)

    def on_HostPaused(self, _seq: int, t: int, node: str, fact: facts.HostPaused) -> None:
        """The process stands still."""
        self.paused_until_us[node] = t + fact.duration_us

    def on_HostResumed(self, _seq: int, _t: int, node: str, _fact: facts.HostResumed) -> None:
        """The process goes on."""
        self.paused_until_us.pop(node, None)

    def on_ClockStepped(self, _seq: int, _t: int, node: str, _fact: facts.ClockStepped) -> None:
        """The wall clock was set."""
        self.set_clocks[node] = None

    def on_ClockDrifted(self, _seq: int, t: int, node: str, fact: facts.ClockDrifted) -> None:
        """The clocks run at another rate."""
        self.set_clocks[node] = None
        self._rates.setdefault(node, []).append((t, fact.drift_ppm))

    def on_TimeLimit(self, _seq: int, _t: int, node: str, fact: facts.TimeLimit) -> None:
        """The process tells a time limit of its configuration."""
        self._limits[(node, fact.config)] = fact.limit_us
