"""The judges that know why a stalled run stays where it is, one for each situation of Kafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from kafkasim.analysis.judging.copies.missed_markers import MissedEnds
from kafkasim.analysis.judging.history.contents import Contents
from kafkasim.analysis.judging.invariants.online import Invariants
from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import BrokerLimits, Waits
from kafkasim.analysis.judging.transactions.liveness.controllers.below_minimum import (
    BelowMinimum,
    HeldWatermarks,
)
from kafkasim.analysis.judging.transactions.liveness.controllers.leaderless import Leaderless
from kafkasim.analysis.judging.transactions.liveness.controllers.left_in_isr import LeftInIsr
from kafkasim.analysis.judging.transactions.liveness.controllers.lost_voters import LostVoters
from kafkasim.analysis.judging.transactions.liveness.controllers.registrations import Registrations
from kafkasim.analysis.judging.transactions.liveness.controllers.unlisted_leader import (
    UnlistedLeader,
)
from kafkasim.analysis.judging.transactions.liveness.coordinators.unwritten_markers import (
    UnwrittenMarkers,
)
from kafkasim.analysis.judging.transactions.liveness.groups.carried_epochs import CarriedEpochs
from kafkasim.analysis.judging.transactions.liveness.groups.downgrade import Downgrades
from kafkasim.analysis.judging.transactions.liveness.groups.failed_loads import FailedLoads
from kafkasim.analysis.judging.transactions.liveness.groups.left_connections import (
    LeftConnections,
)
from kafkasim.analysis.judging.transactions.liveness.groups.static_leader import StaticLeaders
from kafkasim.analysis.judging.transactions.liveness.groups.static_owner import StaticOwners
from kafkasim.analysis.judging.transactions.liveness.groups.untaken_watermarks import (
    UntakenWatermarks,
)
from kafkasim.analysis.judging.transactions.liveness.groups.unwatched import UnwatchedMembers
from kafkasim.analysis.judging.transactions.liveness.holders import Holders
from kafkasim.analysis.judging.transactions.liveness.shares.forgotten_shares import (
    ForgottenShares,
)
from kafkasim.analysis.judging.transactions.liveness.shares.moved_starts import MovedStarts
from kafkasim.analysis.judging.transactions.liveness.shares.read_gaps import ReadGaps
from kafkasim.analysis.judging.transactions.liveness.shares.removed_gaps import RemovedGaps
from kafkasim.analysis.judging.transactions.liveness.shares.stale_records import StaleRecords
from kafkasim.analysis.judging.transactions.liveness.shares.stopped_shares import StoppedShares
from kafkasim.analysis.judging.transactions.liveness.standstill import Standstill


class Clients(Protocol):
    """The client hosts of a run."""

    @property
    def transactional_ids(self) -> Mapping[str, str]:
        """The transactional id of a host's producer, by host."""

    @property
    def members(self) -> Mapping[str, Sequence[str]]:
        """The hosts of each group's members."""


class Stalls:
    """Follows a run, and explains what it misses when it has stalled."""

    def __init__(
        self,
        trace: FactSource,
        invariants: Invariants,
        progress: Progress,
        holes: Contents,
        limits: BrokerLimits,
        clients: Clients,
        hosts: Mapping[int, str],
        unclean: bool,
        tells_static_leader: Callable[[str], bool],
        settle_us: Mapping[str, int],
    ) -> None:
        """``hosts`` are the servers by node id, ``unclean`` says whether the servers' files allow
        unclean elections, ``tells_static_leader(node)`` whether a coordinator follows KIP-814,
        ``settle_us`` how long a group may take to be given a new partition (``MissedBefore``)."""
        ids, members = clients.transactional_ids, clients.members
        losses, group_key = invariants.history.losses, invariants.history.group_key
        registrations = Registrations(trace, limits.registration_us)
        holders = Holders(trace, ids, progress.places, settle_us)
        voters = LostVoters(trace, hosts, registrations, holders)
        missed = MissedEnds(trace, holes, invariants.uncopied)
        unlisted = UnlistedLeader(trace, hosts, registrations)
        gone = (registrations, voters, unlisted)
        unwritten = UnwrittenMarkers(trace, gone, progress.lost_answers.why)
        self.moved_starts = MovedStarts(trace)
        self._judges: tuple[Waits, ...] = (
            Standstill(trace, losses, progress.positions, missed, unwritten),
            Leaderless(trace, ids, members, unclean, (registrations, unlisted)),
            StaticLeaders(trace, tells_static_leader),
            StaticOwners(trace),
            Downgrades(trace),
            CarriedEpochs(trace),
            FailedLoads(trace, group_key, members),
            LeftConnections(trace),
            ForgottenShares(trace, losses),
            UntakenWatermarks(trace),
            UnwatchedMembers(trace, group_key, limits.commit_timeout_us),
            StoppedShares(trace),
            ReadGaps(trace, losses),
            RemovedGaps(trace, limits.share_locks),
            StaleRecords(trace),
            self.moved_starts,
            voters,
            unlisted,
            LeftInIsr(trace, ids, members, voters, holders),
            BelowMinimum(trace, ids, members, gone, holders, progress.lost_answers.why),
            HeldWatermarks(trace, gone, progress.places),
            registrations,
        )

    def why(self, line: str) -> str:
        """Return why Kafka would miss for ever what a line of a stalled run tells of, or ""."""
        return next((why for each in self._judges if (why := each.excuse(line))), "")
