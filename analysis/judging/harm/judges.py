"""All judges of needless harm of one run, subscribed to its trace."""

from __future__ import annotations

from kafkasim.analysis.judging.harm.answers import LateAnswers
from kafkasim.analysis.judging.harm.fencing import FenceReason
from kafkasim.analysis.judging.harm.lag import LagReason
from kafkasim.analysis.judging.harm.offsets import OffsetOrder
from kafkasim.analysis.judging.harm.service.control_requests import ControlRequests
from kafkasim.analysis.judging.harm.service.dead_members import DeadMembers
from kafkasim.analysis.judging.harm.service.raised_epochs import RaisedEpochs
from kafkasim.analysis.judging.harm.service.serving import StaleService
from kafkasim.analysis.judging.harm.shutdown import ShutdownEnds
from kafkasim.analysis.judging.harm.truth.disturbances import Disturbances
from kafkasim.analysis.judging.harm.truth.logs import Logs
from kafkasim.analysis.judging.harm.truth.nodes import Nodes
from kafkasim.analysis.judging.harm.watermark import WatermarkStalls
from kafkasim.analysis.judging.invariants.traced import TracedCluster
from kafkasim.analysis.judging.source import BrokerLimits
from kafkasim.analysis.judging.transactions.verified import VerifiedInOrder

HARM = (
    "LAGREASON", "FENCEREASON", "DEADINISR", "SHUTDOWNENDS", "STALESERVE", "HWSTALL", "ACKLATE",
    "VERIFYORDER", "EPOCHREASON",
)  # fmt: skip
"""The invariants that only these judges have."""


class Harm:
    """The judges of needless harm, and what they share."""

    def __init__(self, cluster: TracedCluster, limits: BrokerLimits) -> None:
        trace = cluster.trace
        nodes, disturbances = Nodes(trace), Disturbances(trace)
        stalls = WatermarkStalls(cluster, nodes, disturbances)
        stalls.logs = logs = Logs(trace, stalls.stood_still)
        LagReason(cluster, nodes, logs)
        LateAnswers(cluster, nodes, logs, disturbances)
        FenceReason(cluster, nodes)
        DeadMembers(cluster, nodes, disturbances)
        ShutdownEnds(cluster, nodes, disturbances, limits)
        StaleService(cluster, disturbances)
        ControlRequests(cluster, disturbances)
        OffsetOrder(cluster)
        RaisedEpochs(cluster)
        VerifiedInOrder(cluster, limits.producer_us)
