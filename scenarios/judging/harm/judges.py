"""All judges of needless harm of one run, subscribed to its trace."""

from __future__ import annotations

from kafkasim.scenarios.judging.harm.fencing import FenceReason
from kafkasim.scenarios.judging.harm.lag import LagReason
from kafkasim.scenarios.judging.harm.nodes import Nodes
from kafkasim.scenarios.judging.harm.offsets import OffsetOrder
from kafkasim.scenarios.judging.invariants.traced import TracedCluster

HARM = ("LAGREASON", "FENCEREASON")
"""The invariants that only these judges have."""


class Harm:
    """The judges of needless harm, which share what they know of the nodes."""

    def __init__(self, cluster: TracedCluster) -> None:
        nodes = Nodes(cluster.trace)
        self._judges = (LagReason(cluster, nodes), FenceReason(cluster, nodes),
                        OffsetOrder(cluster))  # fmt: skip

    def finish(self) -> None:
        """Judge what can only be judged at the end."""
