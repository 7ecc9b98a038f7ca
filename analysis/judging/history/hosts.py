"""Hosts: when their processes started, and whose clocks do not show true time."""

from __future__ import annotations

from kafkasim.model import facts


class Hosts:
    """All hosts of a run, as the trace tells of them."""

    def __init__(self) -> None:
        self.started: dict[str, int] = {}  # the row in which its last process started
        self.set_clocks: dict[str, None] = {}  # whose wall clock was set, or drifts

    def on_HostStarted(self, seq: int, _t: int, node: str, _fact: facts.HostStarted) -> None:
        """A process runs on the host."""
        self.started[node] = seq

    def on_ClockStepped(self, _seq: int, _t: int, node: str, _fact: facts.ClockStepped) -> None:
        """The wall clock was set."""
        self.set_clocks[node] = None

    def on_ClockDrifted(self, _seq: int, _t: int, node: str, _fact: facts.ClockDrifted) -> None:
        """The clocks run at another rate."""
        self.set_clocks[node] = None
