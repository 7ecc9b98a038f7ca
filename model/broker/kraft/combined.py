"""A node with process.roles = broker,controller (KafkaRaftServer over one SharedServer).

One process on one host has two endpoints: a broker and a controller that die and pause together.
They share the metadata log and its Raft client. The client votes and tells both of them what is
committed; the controller takes the snapshots. A clean stop closes the broker first, so that its
controlled shutdown can still be answered here, and then the controller, which hands over its
leadership.

Left out: one metadata loader for both; the broker has its own, on lane ``metadata``.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from kafkasim.model.broker.kraft.broker import Broker, SharedServer
from kafkasim.model.broker.rules import BrokerRules
from kafkasim.model.config import BrokerConfig
from kafkasim.model.controller.kraft.controller import Controller
from kafkasim.model.controller.kraft.ports import PartRules
from kafkasim.model.effects import Process, Request
from kafkasim.model.raft.client import RaftClient
from kafkasim.model.storage.files import Files


class CombinedNode(Process):
    """Broker and controller ``node_id``; the host's name is the broker's endpoint.

    ``voters`` has the address of the controller's endpoint. ``rules`` are the controller's.
    """

    def __init__(
        self,
        name: str,
        node_id: int,
        config: BrokerConfig,
        rack: str | None,
        voters: dict[int, str],
        rules: PartRules,
        broker_rules: BrokerRules,
        files: Files,
        rng: random.Random,
        now: int,
        features: Mapping[str, int] | None = None,
        directory_id: str = "",
        voter_directories: Mapping[int, str] | None = None,
        is_first_disk: bool = True,
    ) -> None:
        self._parts: tuple[Process, ...] = ()
        super().__init__(name, files, rng, now)
        self.endpoint = voters[node_id]
        self.controller = controller = Controller(
            self.endpoint, node_id, voters, config, rules, files, rng, now, features, directory_id,
            self, voter_directories,
        )  # fmt: skip
        raft = controller.raft
        assert isinstance(raft, RaftClient), raft
        shared = SharedServer(self, raft, controller.shutdown)
        self.broker = broker = Broker(
            name, node_id, config, rack, raft.voters, broker_rules, files, rng, now, shared,
            "" if is_first_disk else directory_id,
        )  # fmt: skip
        controller.listeners.add(broker.loader)
        self._parts = (controller, broker)
        self.lane_threads = broker.lane_threads
        self.on_answered = broker.on_answered
        self.network_threads = config.num_network_threads
        self.connection_queue = broker.connection_queue
        self.queued_max_requests = config.queued_max_requests
        self._to_controller: dict[int, None] = {}  # inbound connections to its endpoint

    @property
    def clock_offset_us(self) -> int:
        """The wall clock's offset, the same in both parts."""
        return self._clock_offset_us

    @clock_offset_us.setter
    def clock_offset_us(self, offset_us: int) -> None:
        self._clock_offset_us = offset_us
        for part in self._parts:
            part.clock_offset_us = offset_us

    def start(self, now: int) -> None:
        """Start the controller, then the broker. Both ask the host who their clients are."""
        for part in self._parts:
            part.peer_of, part.service_us = self.peer_of, self.service_us
        self.controller.start(now)
        self.broker.start(now)

    def shutdown(self, now: int) -> None:
        """SIGTERM: the broker stops, and the controller after it."""
        self.broker.shutdown(now)

    def on_barrier_failed(self, files: list[str], error: str, now: int) -> bool:
        """Let the broker decide whether it can go on."""
        return self.broker.on_barrier_failed(files, error, now)

    def accepted(self, connection: int, endpoint: str) -> None:
        """Remember which connections are for the controller."""
        if endpoint == self.endpoint:
            self._to_controller[connection] = None

    def lane_of(self, message: Any, connection: int) -> str:
        """Return the lane of the part that the connection leads to."""
        part = self.controller if connection in self._to_controller else self.broker
        return part.lane_of(message, connection)

    def on_request(self, item: Request, now: int) -> None:
        """Hand a request to the part that it was sent to."""
        if item.connection in self._to_controller:
            self.controller.on_request(item, now)
        else:
            self.broker.on_request(item, now)

    def ground_truth(self) -> list[Any]:
        """Return the final state of replicas, committed offsets and share partitions, as facts."""
        return self.broker.ground_truth()
