"""application-failed: an application gets no exception that it cannot expect.

A group that its coordinator has lost ends the consumers of group.protocol=consumer, and what Kafka
may answer otherwise is known to the judge of groups. Other failures concern no group, and have no
excuse: a scenario permits them.
"""

from __future__ import annotations

from kafkasim.analysis.judging.failures import GroupFailures, lost_group
from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.promise import FactSource, follow
from kafkasim.model import facts


class ApplicationFailures:
    """Follows one run; :meth:`finish` returns its failed applications."""

    def __init__(self, trace: FactSource, history: History) -> None:
        self._excuses = GroupFailures(trace)
        self._footing = history.footing
        self._failed: list[tuple[int, int, str, facts.ApplicationFailed]] = []
        follow(trace, self)

    def on_ApplicationFailed(
        self, seq: int, t: int, node: str, fact: facts.ApplicationFailed
    ) -> None:
        """Take a failure, unless Kafka may answer so."""
        if not self._excuses.cover(node, fact):
            self._failed.append((seq, t, node, fact))

    def finish(self) -> list[Finding]:
        """Return a finding for each failure."""
        found = []
        for seq, t, node, fact in self._failed:
            raised = f"{fact.exception}: {fact.reason}" if fact.reason else fact.exception
            group = "".join(lost_group(fact.reason))
            why = self._footing.lost([self._footing.of_group(group, before=seq)]) if group else ""
            frame = next(iter(fact.traceback[-1:]), "kafkasim.")
            own = not frame.startswith("kafkasim.")  # a line of the user's file
            text = f"{node}: {raised}, at {frame}" if own else f"{node}: {raised} in {fact.task}"
            found.append(
                Finding("application-failed", "", -1, text, 1, why, group=group, seq=seq, t_us=t)
            )
        return found
