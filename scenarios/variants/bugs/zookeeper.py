"""Historical bugs of the ZooKeeper controller (facts, 8.3), and mutations of its rules."""

from __future__ import annotations

from typing import Any

from kafkasim.model.controller.zk.rules import ZkControllerRules
from kafkasim.scenarios.variants import Variant


class AnyControllerEpoch(ZkControllerRules):
    """Brokers obey whoever calls himself controller."""

    def accepts_controller_epoch(self, epoch: int, largest: int) -> bool:
        return True


class BouncesUnseen(ZkControllerRules):
    """A broker that is registered before and after has been there all the time."""

    def is_bounced(self, known_epoch: int, epoch: int) -> bool:
        return False


class ReassignmentsForgotten(ZkControllerRules):
    """What an API asked for is not in /admin/reassign_partitions, so a new controller leaves it."""

    def resumes_reassignment(self, adding: tuple[int, ...], removing: tuple[int, ...]) -> bool:
        return False


class ZombieWrites(ZkControllerRules):
    """Nothing checks /controller_epoch, and the library goes on in a new session by itself."""

    def guards(self, epoch_check: Any) -> tuple[Any, ...]:
        return ()

    def survives_expiry(self) -> bool:
        return True


ZOOKEEPER: tuple[Variant, ...] = ()

ZOOKEEPER_MUTATIONS: tuple[Variant, ...] = (
    Variant(
        "M20-zk-any-controller-epoch", "derived", (AnyControllerEpoch,),
        "META", "zk-controller-gc-pause", "A broker obeys no controller but the newest it heard of.",
    ),
    Variant(
        "M21-zk-no-bounce", "KAFKA-1120", (BouncesUnseen,),
        "no-progress", "zk-fast-restart", "A broker started anew must hear anew what it hosts.",
    ),
    Variant(
        "M22-zk-reassignment-forgotten", "KIP-455", (ReassignmentsForgotten,),
        "LIVE", "zk-reassign-failover", "A new controller goes on with a reassignment it finds.",
    ),
)  # fmt: skip
