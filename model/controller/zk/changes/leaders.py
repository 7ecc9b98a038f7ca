"""Elections of leaders by request and by time: preferred replicas, and unclean ones by request.

The automatic balance (checkAndTriggerAutoLeaderRebalance) runs 5 s after this controller became
active and then every leader.imbalance.check.interval.seconds, broker by broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.controller.zk.events import Steps
from kafkasim.model.controller.zk.states.elections import Strategy
from kafkasim.model.controller.zk.store.zk_data import PREFERRED_ELECTION
from kafkasim.model.errors import Errors
from kafkasim.model.messages import ElectLeadersRequest, ElectLeadersResponse
from kafkasim.model.zookeeper.ops import Delete, Exists, GetData, ZkError

if TYPE_CHECKING:
    from kafkasim.model.config import BrokerConfig
    from kafkasim.model.controller.zk.context import ControllerContext
    from kafkasim.model.controller.zk.election import ControllerElection
    from kafkasim.model.controller.zk.events import EventQueue
    from kafkasim.model.controller.zk.states.partition_states import PartitionStateMachine
    from kafkasim.model.controller.zk.store.controller_store import ControllerStore
    from kafkasim.model.records import TopicPartition
    from kafkasim.model.timers import Timers

FIRST_BALANCE_US = 5_000_000
TIMER = "auto-leader-rebalance"
ELECTION_TYPES = (0, 1)  # of an ElectLeadersRequest: preferred, unclean
UNCLEAN_TYPE = 1


class LeaderElections:
    """Elects leaders for partitions that have one (preferred) or have none (unclean)."""

    def __init__(
        self,
        timers: Timers,
        events: EventQueue,
        election: ControllerElection,
        config: BrokerConfig,
        context: ControllerContext,
        store: ControllerStore,
        partitions: PartitionStateMachine,
    ) -> None:
        self.timers = timers
        self.events = events
        self.election = election
        self.config = config
        self.context = context
        self.store = store
        self.partitions = partitions

    # -------------------------------------------------------------------------- automatic balance

    def start(self) -> None:
        """Begin to balance leaders, if auto.leader.rebalance.enable says so."""
        if self.config.auto_leader_rebalance_enable:
            self._arm(self.events.now + FIRST_BALANCE_US)

    def stop(self) -> None:
        """Stop balancing leaders."""
        self.timers.cancel(TIMER)

    def _arm(self, at: int) -> None:
        self.timers.arm(TIMER, at, self.events.lane, self._due)

    def _due(self, now: int) -> None:
        self._arm(now + self.config.leader_imbalance_check_interval_seconds * 1_000_000)
        steps = self.election.when_active(self._balance)
        self.events.put("AutoPreferredReplicaLeaderElection", steps)

    def _balance(self) -> Steps:
        """Elect the preferred leaders of brokers that lead too few of their partitions.

        The event fails while any partition has no replica (checkAndTriggerAutoLeaderRebalance takes
        the head of each assignment).
        """
        context = self.context
        by_broker: dict[int, list[TopicPartition]] = {}
        for tp, assignment in context.assignments.items():
            if context.deleting(tp.topic):
                continue
            if not assignment.replicas:
                return
            by_broker.setdefault(assignment.replicas[0], []).append(tp)
        for broker, preferred in by_broker.items():
            astray = [
                tp for tp in preferred
                if tp in context.leaderships and context.leaderships[tp].state.leader != broker
            ]  # fmt: skip
            limit = self.config.leader_imbalance_per_broker_percentage
            if 100 * len(astray) > limit * len(preferred):
                movable = [
                    tp for tp in astray
                    if context.is_live(broker)
                    and broker in context.leaderships[tp].state.isr
                ]  # fmt: skip
                if movable:
                    yield from self._elect(movable, Strategy.PREFERRED)

    def _elect(self, partitions: list[TopicPartition], strategy: Strategy) -> Steps:
        """Hold elections; return the partitions that got a leader (onReplicaElection)."""
        before = self.store.because("preferred")
        done = yield from self.partitions.to_online(partitions, strategy)
        self.store.because(before)
        return done

    # --------------------------------------------------------- /admin/preferred_replica_election

    def from_znode(self) -> Steps:
        """Elect for the partitions named in the znode of old tools, and delete the znode."""
        context = self.context
        _, found = yield (Exists(PREFERRED_ELECTION, watch=True), GetData(PREFERRED_ELECTION))
        if found.error is not ZkError.OK:
            return
        wanted = [
            tp for tp in found.data.partitions
            if tp in context.leaderships and not context.deleting(tp.topic)
            and context.leaderships[tp].state.leader != context.assignments[tp].replicas[0]
        ]  # fmt: skip
        if wanted:
            yield from self._elect(wanted, Strategy.PREFERRED)
        yield from self.store.write(Delete(PREFERRED_ELECTION))
        yield (Exists(PREFERRED_ELECTION, watch=True),)

    # ------------------------------------------------------------------------------- ElectLeaders

    def on_request(self, request: ElectLeadersRequest) -> Steps:
        """Return the response to ElectLeaders: preferred elections, or unclean ones for partitions
        whose leader is not live."""
        context = self.context
        if (refused := unknown_type(request)) is not None:
            return refused
        unclean = request.election_type == UNCLEAN_TYPE
        every = request.partitions is None
        asked = tuple(context.leaderships) if request.partitions is None else request.partitions
        results: dict[TopicPartition, Errors] = {}
        wanted: list[TopicPartition] = []
        for tp in asked:
            known = context.leaderships.get(tp)
            if tp not in context.assignments or known is None:
                results[tp] = Errors.UNKNOWN_TOPIC_OR_PARTITION
                continue
            if context.deleting(tp.topic):
                results[tp] = Errors.INVALID_TOPIC_EXCEPTION
                continue
            leader = known.state.leader
            preferred = context.assignments[tp].replicas[0]
            satisfied = context.is_live(leader) if unclean else leader == preferred
            if not satisfied:
                wanted.append(tp)
            elif not every:
                results[tp] = Errors.ELECTION_NOT_NEEDED
        done = yield from self._elect(wanted, Strategy.UNCLEAN if unclean else Strategy.PREFERRED)
        missing = (
            Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE
            if unclean
            else Errors.PREFERRED_LEADER_NOT_AVAILABLE
        )
        for tp in wanted:
            results[tp] = Errors.NONE if tp in done else missing
        return ElectLeadersResponse(Errors.NONE, tuple(results.items()))


def unknown_type(request: ElectLeadersRequest) -> ElectLeadersResponse | None:
    """Return the refusal of an unknown type of election (ElectionType.valueOf throws), else None.

    Every broker refuses it, the controller or not.
    """
    if request.election_type in ELECTION_TYPES:
        return None
    error = Errors.UNKNOWN_SERVER_ERROR
    return ElectLeadersResponse(error, tuple([(tp, error) for tp in request.partitions or ()]))
