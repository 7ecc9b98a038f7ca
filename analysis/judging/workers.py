"""What a Connect cluster promises: each task runs on one worker, and workers have as many."""

from __future__ import annotations

from collections.abc import Iterator

from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.promise import FactSource, follow
from kafkasim.model import facts

SETTLED_US = 5_000_000
"""An assignment that is younger than this at the end may not be the last one."""


class Workers:
    """Follows the workers of one group; without them there is nothing to find."""

    def __init__(self, trace: FactSource, nodes: tuple[str, ...], zombie_us: int) -> None:
        """``zombie_us``: how long two workers may run the same task."""
        self._nodes = dict.fromkeys(nodes)
        self._zombie_us = zombie_us
        self._running: dict[str, dict[str, int]] = {}  # by work: nodes, and since when, in µs
        self._stopped: dict[str, int] = {}  # by work that runs nowhere: since when
        self._still: dict[str, int] = {}  # by work: how long it has run nowhere at most
        self._assigned: dict[str, tuple[int, int, facts.WorkAssigned]] = {}  # by node: seq, t, fact
        self._twice: list[Finding] = []
        self._group = ""
        self._end_us = 0
        if nodes:
            follow(trace, self)

    def on_WorkAssigned(self, seq: int, t: int, node: str, fact: facts.WorkAssigned) -> None:
        """Take what a worker is to run."""
        if node in self._nodes:
            self._assigned[node] = seq, t, fact
            self._group = fact.group

    def on_WorkStarted(self, _seq: int, t: int, node: str, fact: facts.WorkStarted) -> None:
        """Note that a worker runs a connector or a task."""
        if node in self._nodes:
            self._running.setdefault(fact.work, {})[node] = t
            self._goes_on(fact.work, t)

    def on_WorkStopped(self, seq: int, t: int, node: str, fact: facts.WorkStopped) -> None:
        """Note that it runs it no more."""
        if node in self._nodes:
            self._stop(fact.work, node, seq, t)

    def on_HostStopped(self, seq: int, t: int, node: str, _fact: facts.HostStopped) -> None:
        """Note that it runs nothing any more."""
        if node in self._nodes:
            self._assigned.pop(node, None)
            for work in [each for each, nodes in self._running.items() if node in nodes]:
                self._stop(work, node, seq, t)

    def on_Phase(self, _seq: int, t: int, _node: str, _fact: facts.Phase) -> None:
        """Take the time, at last that of the end."""
        self._end_us = t

    def _goes_on(self, work: str, t: int) -> None:
        since = self._stopped.pop(work, None)
        if since is not None:
            self._still[work] = max(self._still.get(work, 0), t - since)

    def _stop(self, work: str, node: str, seq: int, t: int) -> None:
        """End the run of a work on a node, and say how long others have run it, too."""
        nodes = self._running.get(work, {})
        if node not in nodes:
            return  # a failed task, which its worker now forgets
        self._note_twice(work, nodes, seq, t)
        del nodes[node]
        if not nodes:
            self._stopped[work] = t

    def _note_twice(self, work: str, nodes: dict[str, int], seq: int, t: int) -> None:
        if len(nodes) < 2:
            return
        (one, _), (other, since) = sorted(nodes.items(), key=lambda item: item[1])[-2:]
        if t - since > self._zombie_us:
            text = (
                f"{one} and {other} both run {work} for {(t - since) / 1e6:.1f} s;"
                f" {self._zombie_us / 1e6:.1f} s are allowed"
            )
            self._twice.append(
                Finding("task-twice", "", -1, text, group=self._group, seq=seq, t_us=t)
            )

    # The end.

    def finish(self) -> list[Finding]:
        """Return all findings."""
        twice = len(self._twice)
        for work, nodes in self._running.items():
            self._note_twice(work, nodes, -1, self._end_us)
        found = [*self._twice, *self._uneven()]
        del self._twice[twice:]
        return found

    def _uneven(self) -> Iterator[Finding]:
        """Yield that the last assignment gives one worker two tasks more than another."""
        last = max([fact.generation for _, _, fact in self._assigned.values()], default=-1)
        mine = {node: each for node, each in self._assigned.items() if each[2].generation == last}
        if len(mine) < len(self._assigned) or len(mine) < 2:
            return
        for _seq, t, fact in mine.values():
            if fact.delay_us or t > self._end_us - SETTLED_US:
                return
        for kind in ("connectors", "tasks"):
            shares = {
                node: sum(_kind(work) == kind for work in fact.running_work)
                for node, (_, _, fact) in mine.items()
            }
            most, least = max(shares, key=shares.__getitem__), min(shares, key=shares.__getitem__)
            if shares[most] - shares[least] > 1:
                seq, t, _ = mine[most]
                text = (
                    f"generation {last} gives {shares[most]} {kind} to {most}"
                    f" and {shares[least]} to {least}"
                )
                yield Finding("tasks-uneven", "", -1, text, group=self._group, seq=seq, t_us=t)

    @property
    def told(self) -> list[str]:
        """Which work has run nowhere for longest, if that was a second or longer."""
        still = dict(self._still)
        for work, since in self._stopped.items():
            still[work] = max(still.get(work, 0), self._end_us - since)
        long = {work: us for work, us in still.items() if us >= 1_000_000}
        if not long:
            return []
        longest = max(sorted(long), key=long.__getitem__)
        others = f", {len(long) - 1} more for a second or longer" if len(long) > 1 else ""
        return [f"{longest} ran nowhere for {long[longest] / 1e6:.1f} s{others}"]


def _kind(work: str) -> str:
    return "tasks" if work.rpartition("-")[2].isdigit() else "connectors"
