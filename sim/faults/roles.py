"""The hosts that have a role now, by the facts of the trace: leaders, followers, the controller."""

from __future__ import annotations

from kafkasim.model.facts import ControllerActive, PartitionChanged, TopicCreated
from kafkasim.sim.trace.recording import Facts


class Roles:
    """Follows the facts of one run."""

    def __init__(self, trace: Facts) -> None:
        self.topics: dict[str, str] = {}  # name by topic id
        self._partitions: dict[str, PartitionChanged] = {}  # by "topic-partition"
        self._controller: str | None = None
        trace.subscribe(TopicCreated, self._on_topic)
        trace.subscribe(PartitionChanged, self._on_partition)
        trace.subscribe(ControllerActive, self._on_controller)

    def place(self, name: str, node: str | None) -> str | None:
        """Return the place that a target names now, None if no node has the role.

        ``node`` is what ``@node`` stands for. A name that is no role is returned as it is.
        """
        if name == "@node":
            return node
        if name == "active-controller":
            return self._controller
        role, colon, partition = name.partition(":")
        if not colon:
            return name
        state = self._partitions.get(partition)
        if state is None:
            return None
        followers = [broker for broker in state.isr if broker != state.leader]
        broker = state.leader if role == "leader" else followers[0] if followers else -1
        return f"broker-{broker}" if broker >= 0 else None

    def _on_topic(self, _: int, __: int, ___: str, fact: TopicCreated) -> None:
        self.topics[fact.topic_id] = fact.topic

    def _on_partition(self, _: int, __: int, ___: str, fact: PartitionChanged) -> None:
        topic = self.topics.get(fact.topic_id)
        if topic is None:
            return
        name = f"{topic}-{fact.partition}"
        known = self._partitions.get(name)
        if (
            known is None
            or known.topic_id != fact.topic_id
            or fact.partition_epoch >= known.partition_epoch
        ):
            self._partitions[name] = fact

    def _on_controller(self, _: int, __: int, node: str, fact: ControllerActive) -> None:
        if fact.active:
            self._controller = node
        elif self._controller == node:
            self._controller = None
