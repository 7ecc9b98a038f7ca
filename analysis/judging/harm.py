"""All judges of needless harm, and of the decisions of coordinators and controllers, of one run.

Each is one module: decisions.py, dead_members.py, service.py, watermarks.py, producers.py,
coordinated.py.
"""

from __future__ import annotations

from kafkasim.analysis.judging.coordinated import (
    ConsumerGroupOwners,
    Coordinators,
    Handovers,
    VanishedOffsets,
)
from kafkasim.analysis.judging.dead_members import DeadMembers
from kafkasim.analysis.judging.decisions import Decisions
from kafkasim.analysis.judging.disturbances import Disturbances
from kafkasim.analysis.judging.findings import Findings
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.producers import Sequences
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.service import StaleService
from kafkasim.analysis.judging.source import BrokerLimits
from kafkasim.analysis.judging.watermarks import Watermarks

HARM = (
    "LAGREASON", "FENCEREASON", "DEADINISR", "STALESERVE", "HWSTALL", "ACKLATE", "VERIFYORDER",
    "EPOCHREASON", "needless-rebalance", "long-rebalance", "needless-eviction", "vanished-offset",
    "early-handover",
)  # fmt: skip
"""What only these judges find."""


def harm_promises(
    history: History, findings: Findings, trace: FactSource, limits: BrokerLimits
) -> list[object]:
    """Return the judges of needless harm and what they share, in the order in which they follow."""
    disturbances, coordinators = Disturbances(), Coordinators(history)
    return [
        disturbances,
        coordinators,
        Decisions(history, findings),
        DeadMembers(findings, disturbances),
        StaleService(history, findings, disturbances),
        Watermarks(findings, disturbances),
        Sequences(findings, limits.producer_us),
        ConsumerGroupOwners(history, findings, coordinators),
        Handovers(history, findings),
        VanishedOffsets(history, findings, trace, coordinators, limits.retention_us),
    ]
