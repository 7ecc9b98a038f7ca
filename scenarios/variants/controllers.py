"""Historical bugs of controllers and of what brokers take from them (facts, 8.3)."""

from __future__ import annotations

from typing import Any

from model.client.rules import ClientRules
from model.controller.zk.rules import UNKNOWN_EPOCH, ZkControllerRules
from scenarios.variants import Variant


class RepeatedChangeIsRefused(ZkControllerRules):
    """A change that is asked for again, after a lost answer, is judged by its old epoch."""

    def is_repeated(self, data: Any, isr: tuple[int, ...], recovery: int) -> bool:
        return False


class WritesUnguarded(ZkControllerRules):
    """A controller writes what it has queued without a look at /controller_epoch."""

    def guards(self, epoch_check: Any) -> tuple[Any, ...]:
        return ()

    def survives_expiry(self) -> bool:
        return True


class NoBrokerEpoch(ZkControllerRules):
    """Control requests say nothing of the incarnation they are for, and nobody asks."""

    def broker_epoch(self, epoch: int) -> int:
        return UNKNOWN_EPOCH

    def is_bounced(self, known_epoch: int, epoch: int) -> bool:
        return False


class BounceIsMissed(ZkControllerRules):
    """A broker that is in the list before and after has not been away."""

    def is_bounced(self, known_epoch: int, epoch: int) -> bool:
        return False


class NewerBrokerEpochIsRefused(ZkControllerRules):
    """A broker refuses control requests for any registration but the one it knows."""

    def is_stale_broker_epoch(self, requested: int, own: int) -> bool:
        return requested not in (UNKNOWN_EPOCH, own)


class TopicsHaveNamesOnly(ClientRules):
    """Clients take a topic that was created again for the one they know."""

    def is_another_topic(self, known_id: str | None, topic_id: str) -> bool:
        return known_id is None


CONTROLLERS: tuple[Variant, ...] = (
    Variant(
        "B22-lost-alter-reply-not-idempotent", "KAFKA-12751", (RepeatedChangeIsRefused,),
        "LIVE", "B22-lost-alter-reply-not-idempotent",
        "Asking again for an ISR that is there already succeeds.",
    ),
    Variant(
        "B33-zk-write-without-epoch-check", "KAFKA-6082", (WritesUnguarded,),
        "META", "B33-zk-write-without-epoch-check",
        "A controller's write to ZooKeeper takes effect only while it is the controller.",
    ),
    Variant(
        "B34-no-broker-epoch", "KIP-380", (NoBrokerEpoch,),
        "ISRDATA", "B34-no-broker-epoch",
        "A control request for an earlier incarnation of a broker is refused.",
    ),
    Variant(
        "B35-newer-broker-epoch-rejected", "KAFKA-9839", (NewerBrokerEpochIsRefused,),
        "LIVE", "B35-newer-broker-epoch-rejected",
        "A broker takes control requests for a later registration than it knows of.",
    ),
    Variant(
        "B36-missed-bounce", "KAFKA-1120", (BounceIsMissed,),
        "LIVE", "B36-missed-bounce",
        "A broker that was away is told anew what it hosts, even if nobody saw it go.",
    ),
    Variant(
        "B45-topic-recreated", "KAFKA-12257", (TopicsHaveNamesOnly,),
        "LIVE", "B45-topic-recreated",
        "Clients go on with a topic that was created again under its name.",
    ),
)  # fmt: skip
