"""Access control lists and quotas: historical bugs (KAFKA.md, 8.8)."""

from __future__ import annotations

from collections.abc import Iterable

from kafkasim.model.controller.common.acls import Action, AuthorizerRules
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


class DefaultInSpiteOfEntries(AuthorizerRules):
    """allow.everyone.if.no.acl.found counts although the resource has entries of others."""

    def without_entries(self, entries: list[AclBinding], everyone: bool) -> bool:
        return everyone


class IgnoresAll(AuthorizerRules):
    """An entry for all operations is for none of them."""

    def implied(self, entry: AclBinding, operation: str) -> bool:
        return entry.operation != ALL and super().implied(entry, operation)


class ForgetsAddresses(AuthorizerRules):
    """The host of a request is not compared as the address that entries name."""

    def is_from(self, entry: AclBinding, host: str) -> bool:
        return entry.host == WILDCARD


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
        "A03-default-in-spite-of-entries", "KAFKA-14435", (DefaultInSpiteOfEntries,),
        "AUTHZ", "A03-default-in-spite-of-entries",
        "A resource that has an entry is closed to everybody whom no entry names.",
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
        "A10-answer-after-throttle", "KAFKA-6028", (AnswersAfterThrottle,),
        "duplicate", "A10-answer-after-throttle",
        "A producer above its quota is answered at once, so it does not send its records again.",
    ),
)  # fmt: skip
