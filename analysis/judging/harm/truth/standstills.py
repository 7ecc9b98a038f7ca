"""Times for which a host did nothing: its process was paused, or its disk was stalled.

A lane that appends to a stalled disk waits for the end of the stall, as do the requests and timers
behind it. So a deadline that fell into a stall is met after it, as it is after a pause.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.model import facts

DISK_STALL = "disk-stall"


class Standstills:
    """Tells ``stood_still(host, begin_us, end_us)`` of each pause and each stall.

    A pause is told as it begins, since its length is known then; a stall as it ends.
    """

    def __init__(self, trace: FactSource, stood_still: Callable[[str, int, int], None]) -> None:
        self._stood_still = stood_still
        self._stalled: dict[str, list[int]] = {}  # host -> when its stalls of now began
        trace.subscribe(facts.HostPaused, self._on_paused)
        trace.subscribe(facts.FaultStarted, self._on_fault)
        trace.subscribe(facts.FaultEnded, self._on_fault_ended)

    def _on_paused(self, _seq: int, t: int, node: str, fact: facts.HostPaused) -> None:
        self._stood_still(node, t, t + fact.duration_us)

    def _on_fault(self, _seq: int, t: int, _node: str, fact: facts.FaultStarted) -> None:
        if fact.fault == DISK_STALL:
            for host in re.split(r"[+|]", fact.target):
                self._stalled.setdefault(host, []).append(t)

    def _on_fault_ended(self, _seq: int, t: int, _node: str, fact: facts.FaultEnded) -> None:
        if fact.fault == DISK_STALL:
            for host in re.split(r"[+|]", fact.target):
                begun = self._stalled.get(host, [])
                begin = begun.pop() if begun else t
                if not begun:  # else another stall goes on, which began earlier
                    self._stood_still(host, begin, t)
