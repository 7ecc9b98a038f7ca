"""A controller and three brokers in the little world (KRaft mode)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kafkasim.model.broker import Broker, BrokerRules
from kafkasim.model.config import BrokerConfig
from kafkasim.model.controller.common.acls import AuthorizerRules
from kafkasim.model.controller.kraft.controller import Controller
from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.model.raft.rules import RaftRules
from kafkasim.model.storage.rules import StorageRules
from tests.model.cluster_verbs import SECOND, TP, ClusterVerbs, batch

__all__ = ["SECOND", "TP", "Cluster", "batch"]


class Cluster(ClusterVerbs):
    """Three brokers, one controller, topic ``orders`` with one partition on 1, 2, 3.

    With the ``directory_id`` of the controller, the quorum's voters may change (kraft.version 1).
    """

    def __init__(
        self,
        rules: BrokerRules | None = None,
        seed: int = 1,
        controller: ControllerRules | None = None,
        raft: RaftRules | None = None,
        directory_id: str = "",
        **settings: Any,
    ) -> None:
        super().__init__(seed)
        properties = {key.replace("_", "."): value for key, value in settings.items()}
        self.config = BrokerConfig.from_properties(
            {"default.replication.factor": 3, "min.insync.replicas": 2, **properties}
        )
        voters = {100: "controller-100"}
        controller_rules = SimpleNamespace(
            controller=controller or ControllerRules(),
            raft=raft or RaftRules(),
            storage=StorageRules(),
            authorizer=AuthorizerRules(),
        )
        self.add(
            "controller-100",
            lambda files, rng, now: Controller(
                "controller-100",
                100,
                voters,
                self.config,
                controller_rules,
                files,
                rng,
                now,
                directory_id=directory_id,
                voter_directories={100: directory_id} if directory_id else None,
            ),
        )
        for number in (1, 2, 3):
            self.add(
                f"broker-{number}",
                lambda files, rng, now, number=number: Broker(
                    f"broker-{number}",
                    number,
                    self.config,
                    None,
                    voters,
                    rules or BrokerRules(),
                    files,
                    rng,
                    now,
                ),
            )
        self.run(3 * SECOND)
