"""A consumer's assignors, and what it does with them as the leader of its group.

The half of Kafka's ConsumerCoordinator that chooses the rebalance protocol, writes subscriptions,
assigns (onLeaderElected), and watches the topics that it has assigned (MetadataSnapshot).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kafkasim.model.client.exceptions import AssignorError
from kafkasim.model.group.assignors import RebalanceProtocol, assignor_class, rebalance_protocol
from kafkasim.model.group.assignors.sticky.assignor import CooperativeStickyAssignor
from kafkasim.model.messages import JoinGroupResponse, Subscription
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from kafkasim.model.client.consumer.group.membership import Membership
    from kafkasim.model.client.consumer.subscription import SubscriptionState
    from kafkasim.model.client.net.metadata import Metadata
    from kafkasim.model.client.rules import ClientRules
    from kafkasim.model.config import ConsumerConfig
    from kafkasim.model.group.assignors import Assignment, Members, Topics

Partitions = tuple[TopicPartition, ...]
BUILT_IN_COOPERATIVE = "cooperative-sticky"


class GroupAssignors:
    """The assignors of one consumer, in the order of its preference."""

    def __init__(
        self,
        config: ConsumerConfig,
        rules: ClientRules,
        metadata: Metadata,
        subscription: SubscriptionState,
        membership: Membership,
    ) -> None:
        classes = [assignor_class(name) for name in config.partition_assignment_strategy]
        self.protocol = rebalance_protocol(classes)
        self._assignors = {each.name: each() for each in classes}
        built_in = self._assignors.get(BUILT_IN_COOPERATIVE)
        if isinstance(built_in, CooperativeStickyAssignor):
            built_in.withholds = rules.withholds_owned_partitions()
        self._watches_topics = rules.leader_watches_topics()
        self._rack = config.client_rack or None
        self._metadata = metadata
        self._subscription = subscription
        self._membership = membership
        self._assigned: Mapping[str, object] | None = None  # what a leader knew of its topics

    @property
    def cooperative(self) -> bool:
        """Whether the member keeps its partitions in a rebalance (KIP-429)."""
        return self.protocol is RebalanceProtocol.COOPERATIVE

    def subscriptions(self) -> tuple[tuple[str, Subscription], ...]:
        """Return (assignor, subscription) by preference, for JoinGroup (metadata()).

        Raises:
            AssignorError: an assignor failed to make its user data.
        """
        owned = tuple(self._subscription.assignment)
        generation = self._membership.generation_id
        topics, rack = self._subscription.topics, self._rack
        data = {
            name: _run(name, assignor.user_data, topics)
            for name, assignor in self._assignors.items()
        }
        return tuple(
            [
                (name, Subscription(topics, owned, generation, rack, each))
                for name, each in data.items()
            ]
        )

    def on_assignment(self, name: str, partitions: Partitions) -> AssignorError | None:
        """Tell the assignor that was chosen what the member has been assigned.

        Return its error, if it fails (invokeOnAssignment).
        """
        try:
            assignor = self._assignors[name]
            _run(name, assignor.on_assignment, partitions, self._membership.generation_id)
        except AssignorError as error:
            return error
        return None

    # As the leader of the group.

    def watch(self, response: JoinGroupResponse, now: int) -> bool:
        """Ask for the topics of all members; return whether some are not the leader's own.

        It waits for the next metadata then (updateGroupSubscription).
        """
        wanted = _topics_of(response)
        self._metadata.add_topics(wanted, now)
        if all(topic in self._subscription.topics for topic in wanted):
            return False
        self._metadata.request_update_for_new_topics(now)
        return True

    def blocks(self, response: JoinGroupResponse) -> bool:
        """Return whether the assignor asks brokers, and the application has to run it."""
        assert response.protocol_name is not None, response
        return self._assignors[response.protocol_name].blocks and not response.skip_assignment

    def topics_to_assign(self, response: JoinGroupResponse) -> Topics:
        """Return all members' topics, and watch them from now on (metadataSnapshot)."""
        wanted = _topics_of(response)
        self._assigned = self._known(wanted)
        return {topic: self._racks_of(topic) for topic in wanted}

    def assign(self, response: JoinGroupResponse, now: int) -> tuple[tuple[str, Partitions], ...]:
        """Assign the partitions of all members' topics.

        Raises:
            AssignorError: the assignor failed, or gives away partitions that are still owned.
        """
        assert response.protocol_name is not None, response
        topics = self.topics_to_assign(response)
        if response.skip_assignment:
            return ()
        assignor = self._assignors[response.protocol_name]
        assignment: Assignment = _run(assignor.name, assignor.assign, topics, response.members)
        return self.checked(response, assignment)

    def checked(
        self, response: JoinGroupResponse, assignment: Assignment
    ) -> tuple[tuple[str, Partitions], ...]:
        """Return an assignment as SyncGroup takes it.

        Raises:
            AssignorError: it gives away partitions that are still owned.
        """
        if self.cooperative and response.protocol_name != BUILT_IN_COOPERATIVE:
            _validate_cooperative(assignment, response.members)
        return tuple(assignment.items())

    def _racks_of(self, topic: str) -> list[frozenset[str]]:
        partitions = self._metadata.replica_racks(topic)
        return [frozenset([rack for rack in racks if rack is not None]) for racks in partitions]

    def forget_assigned(self) -> None:
        """Watch no topics any more: who leads the next generation assigns anew."""
        self._assigned = None

    def assigned_changed(self) -> bool:
        """Return whether partitions that the member assigned as the leader have changed."""
        if self._assigned is None or not self._watches_topics:
            return False
        return self._assigned != self._known(tuple(self._assigned))

    def _known(self, topics: tuple[str, ...]) -> dict[str, object]:
        """Return the partitions of topics; with client.rack, the racks of their replicas too.

        Then a broker that goes away or comes back is a change (KAFKA-14867).
        """
        if self._rack is None:
            return {topic: self._metadata.partition_counts.get(topic, 0) for topic in topics}
        return {topic: self._metadata.replica_racks(topic) for topic in topics}


def _run(name: str, method: Callable[..., Any], *arguments: Any) -> Any:
    """Run a method of an assignor.

    Raises:
        AssignorError: it failed.
    """
    try:
        return method(*arguments)
    except (AssertionError, AssignorError):
        raise  # the first is a bug of ours
    except Exception as error:
        raise AssignorError(type(error).__name__, f"{name}: {error}") from error


def _topics_of(response: JoinGroupResponse) -> tuple[str, ...]:
    """Return the topics that the members of a group subscribe to, sorted."""
    return tuple(sorted({t: None for m in response.members for t in m.subscription.topics}))


def _validate_cooperative(assignment: Assignment, members: Members) -> None:
    """Check that no partition goes to a member while another one owns it.

    Models validateCooperativeAssignment. The built-in assignor is not checked, because it knows
    which claims are out of date.
    """
    owned = {m.member_id: m.subscription.owned_partitions for m in members}
    added: set[TopicPartition] = set()
    revoked: set[TopicPartition] = set()
    for member_id, partitions in assignment.items():
        added.update(set(partitions).difference(owned.get(member_id, ())))
        revoked.update(set(owned.get(member_id, ())).difference(partitions))
    if added & revoked:
        names = ", ".join([str(tp) for tp in sorted(added & revoked)])
        message = "Assignor supporting the COOPERATIVE protocol violates its requirements"
        raise AssignorError("ILLEGAL_STATE", f"{message}: {names} are still owned")
