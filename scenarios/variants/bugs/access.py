"""Access control lists, quotas and connections: historical bugs (KAFKA.md, 8.8)."""

from __future__ import annotations

from collections.abc import Container, Iterable

from kafkasim.model.broker.common.connection_quotas import ConnectionRules
from kafkasim.model.broker.kraft.rules import LifecycleRules
from kafkasim.model.config.base import MAX_INT
from kafkasim.model.controller.common.acls import Action, AuthorizerRules
from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.model.messages.clients.acls import ALL, LITERAL, WILDCARD, AclBinding
from kafkasim.model.replication.rules import ReplicationRules
from kafkasim.scenarios.variants.variant import Variant


class StopsAtNeighbour(AuthorizerRules):
    """The search goes down the sorted names, and ends at the first that is no prefix."""

    def matching(self, entries: Iterable[AclBinding], action: Action) -> list[AclBinding]:
        of_type = [each for each in entries if each.resource_type == action.resource_type]
        found = [each for each in of_type if each.name == WILDCARD]
        below = [each for each in of_type if each.name <= action.name and each.name != WILDCARD]
        for each in sorted(below, key=lambda entry: entry.name, reverse=True):
            if each.pattern_type == LITERAL:
                if each.name == action.name:
                    found.append(each)
            elif action.name.startswith(each.name):
                found.append(each)
            else:
                break
        return found


class AppliesEntriesOneByOne(LifecycleRules):
    """A decision may see some of the entries of one change, and not yet the others."""

    def applies_whole_changes(self) -> bool:
        return False


class DefaultInSpiteOfEntries(AuthorizerRules):
    """allow.everyone.if.no.acl.found counts although the resource has entries of others."""

    def without_entries(self, entries: list[AclBinding], everyone: bool) -> bool:
        return everyone


class ServesBeforeLoad(LifecycleRules):
    """A starting broker serves at once, and its authorizer decides on what it has read by then."""

    def serves_before_load(self) -> bool:
        return True


class IgnoresAll(AuthorizerRules):
    """An entry for all operations is for none of them."""

    def implied(self, entry: AclBinding, operation: str) -> bool:
        return entry.operation != ALL and super().implied(entry, operation)


class ForgetsAddresses(AuthorizerRules):
    """The host of a request is not compared as the address that entries name."""

    def is_from(self, entry: AclBinding, host: str) -> bool:
        return entry.host == WILDCARD


class AddsTwice(ControllerRules):
    """CreateAcls writes an entry although it is there."""

    def is_new_entry(self, binding: AclBinding, known: Container[AclBinding]) -> bool:
        return True


class KeepsRemovedQuota(ReplicationRules):
    """A quota that is removed, with none to take its place, goes on for who was measured."""

    def quota_in_force(self, known: float | None, applied: float | None) -> float | None:
        return known if applied is None else applied


class TakesAllNewConnections(ConnectionRules):
    """A network thread sets up all new connections that there are before it reads and answers."""

    def connection_queue(self) -> int:
        return MAX_INT


class KeepsSlotOfReset(ConnectionRules):
    """A connection whose options cannot be set keeps its slot, and nobody closes it."""

    def releases_reset(self) -> bool:
        return False


class AnswersAfterThrottle(ReplicationRules):
    """The answer to a client above its quota waits for the throttle time."""

    def answers_before_throttle(self) -> bool:
        return False


ACCESS: tuple[Variant, ...] = (
    Variant(
        "A01-prefix-shadow", "KAFKA-14265", (StopsAtNeighbour,),
        "AUTHZ", "A01-prefix-shadow",
        "An entry for a prefix counts, whatever other entries are sorted between it and the name.",
    ),
    Variant(
        "A02-torn-read", "KAFKA-14214", (AppliesEntriesOneByOne,),
        "AUTHZ", "A02-torn-read",
        "Whoever is denied before and after a change is denied amid it, too.",
    ),
    Variant(
        "A03-default-in-spite-of-entries", "KAFKA-14435", (DefaultInSpiteOfEntries,),
        "AUTHZ", "A03-default-in-spite-of-entries",
        "A resource that has an entry is closed to everybody whom no entry names.",
    ),
    Variant(
        "A04-serves-before-load", "KAFKA-13649", (ServesBeforeLoad,),
        "AUTHZ", "A04-serves-before-load",
        "A broker that starts again decides once it has loaded the entries.",
    ),
    Variant(
        "A05-all-ignored", "KAFKA-13697", (IgnoresAll,),
        "AUTHZ", "A05-all-ignored",
        "An entry for all operations allows each of them.",
    ),
    Variant(
        "A06-host-ignored", "KAFKA-13698", (ForgetsAddresses,),
        "AUTHZ", "A06-host-ignored",
        "An entry that names the address of a client counts for its requests.",
    ),
    Variant(
        "A07-duplicate-entries", "KAFKA-19347", (AddsTwice,),
        "META", "A07-duplicate-entries",
        "An entry that an operator adds twice is in the metadata once.",
    ),
    Variant(
        "A09-removed-quota", "KAFKA-9658", (KeepsRemovedQuota,),
        "RATE", "A09-removed-quota",
        "A client whose quota is removed is throttled no more.",
    ),
    Variant(
        "A10-answer-after-throttle", "KAFKA-6028", (AnswersAfterThrottle,),
        "duplicate", "A10-answer-after-throttle",
        "A producer above its quota is answered at once, so it does not send its records again.",
    ),
    Variant(
        "A11-all-new-connections-first", "KAFKA-7719", (TakesAllNewConnections,),
        "LIVE", "A11-all-new-connections-first",
        "A producer that is connected is answered while many others connect.",
    ),
    Variant(
        "A16-reset-keeps-slot", "KAFKA-13457", (KeepsSlotOfReset,),
        "LIVE", "A16-reset-keeps-slot",
        "A client that dies before the acceptor takes its connection leaves its slot to others.",
    ),
)  # fmt: skip
