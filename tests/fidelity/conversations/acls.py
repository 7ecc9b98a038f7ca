"""CreateAcls, DescribeAcls and DeleteAcls, most of them wrong in one way (KIP-11, 290)."""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.model import messages as m
from kafkasim.model.messages.clients.acls import (
    ALL,
    ANY,
    CLUSTER,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    DENY,
    DESCRIBE,
    GROUP,
    LITERAL,
    MATCH,
    PREFIXED,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
)
from tests.fidelity.conversations.granting import ALICE, entry, put
from tests.fidelity.conversations.talk import Talk

Verb = Callable[..., None]
"""Describes or deletes: what is asked, and the filters."""

BOB = "User:bob"
UNKNOWN = "unknown-0"
"""The code 0 of each enumeration, by which a client tells of what it does not know."""

WRONG: dict[str, m.AclBinding] = {
    "of any resource type": entry(READ, "a", ANY),
    "of an unknown resource type": entry(READ, "a", UNKNOWN),
    "of the pattern ANY": entry(READ, "a", pattern=ANY),
    "of the pattern MATCH": entry(READ, "a", pattern=MATCH),
    "of an unknown pattern": entry(READ, "a", pattern=UNKNOWN),
    "of any operation": entry(ANY, "a"),
    "of an unknown operation": entry(UNKNOWN, "a"),
    "of any permission": entry(READ, "a", permission=ANY),
    "of an unknown permission": entry(READ, "a", permission=UNKNOWN),
    "of no name": entry(READ, ""),
    "of no principal": entry(READ, "a", who=""),
    "of a principal without a type": entry(READ, "a", who="alice"),
    "of a principal without a name": entry(READ, "a", who="User:"),
    "of a principal with an empty type": entry(READ, "a", who=":alice"),
    "of a principal with two colons": entry(READ, "a", who="User:a:b"),
    "of no host": entry(READ, "a", host=""),
    "of another cluster": entry(DESCRIBE, "my-cluster", CLUSTER),
    "of a prefix of the cluster": entry(DESCRIBE, "kafka", CLUSTER, pattern=PREFIXED),
    "of an operation that topics have not": entry(CLUSTER_ACTION, "a"),
    "of a name that no topic can have": entry(READ, "a b/c"),
}
"""What is wrong with an entry, or looks so, and the entry."""


def changing(talk: Talk) -> None:
    """Entries that are created, described by every kind of filter, and deleted."""

    def create(what: str, *entries: m.AclBinding) -> None:
        talk.ask(what, m.CreateAclsRequest(entries))
        talk.side.settle(0.3)

    def show(what: str, **filter_: str) -> None:
        talk.ask(what, m.DescribeAclsRequest(m.AclFilter(**filter_)), node=2)

    def delete(what: str, *filters: m.AclFilter) -> None:
        talk.ask(what, m.DeleteAclsRequest(filters))
        talk.side.settle(0.3)

    put(talk)
    show("describe before any is set")
    delete("delete before any is set", m.AclFilter())
    create("create none")
    delete("delete by no filter")
    for what, wrong in WRONG.items():
        create(f"create one {what}", wrong)
    show("describe what was not refused")
    delete("delete what was not refused", m.AclFilter())
    create("create one twice", entry(READ, "a"), entry(READ, "a"))
    create("create it again", entry(READ, "a"))
    create("create a right one and a wrong one", entry(WRITE, "a"), entry(ANY, "a"))
    prefixed = entry(READ, "a", pattern=PREFIXED, who=BOB)
    create("create a prefix and the wildcard", prefixed, entry(READ, "*", who=BOB))
    create("create a longer prefix", entry(READ, "ab", pattern=PREFIXED, permission=DENY))
    group, tid = entry(READ, "a", GROUP, host="10.1.1.1"), entry(ALL, "a", TRANSACTIONAL_ID)
    create("create those of others", group, tid, entry(DESCRIBE, CLUSTER_NAME, CLUSTER, who=BOB))
    _describe(show)
    _delete(show, delete)


def _describe(show: Verb) -> None:
    show("describe all")
    show("describe topics", resource_type=TOPIC)
    show("describe the cluster", resource_type=CLUSTER)
    show("describe literal entries", pattern_type=LITERAL)
    show("describe prefixed entries", pattern_type=PREFIXED)
    show("describe by MATCH without a name", pattern_type=MATCH)
    for pattern in (ANY, LITERAL, PREFIXED, MATCH):
        for name in ("a", "abc", "*", ""):
            show(f"describe the topic {name!r} by {pattern}", resource_type=TOPIC, name=name,
                 pattern_type=pattern)  # fmt: skip
    show("describe whatever is called a", name="a")
    show("describe what is alice's", principal=ALICE)
    show("describe what is of everybody", principal="User:*")
    show("describe what is of one host", host="10.1.1.1")
    show("describe what is of the host *", host="*")
    show("describe reads", operation=READ)
    show("describe ALL", operation=ALL)
    show("describe denials", permission=DENY)
    show("describe an unknown resource type", resource_type=UNKNOWN)
    show("describe an unknown pattern", pattern_type=UNKNOWN)
    show("describe an unknown operation", operation=UNKNOWN)
    show("describe an unknown permission", permission=UNKNOWN)
    show("describe an empty principal", principal="")


def _delete(show: Verb, delete: Verb) -> None:
    delete("delete by an unknown resource type", m.AclFilter(UNKNOWN))
    delete("delete by an unknown pattern", m.AclFilter(pattern_type=UNKNOWN))
    delete("delete by an unknown operation", m.AclFilter(operation=UNKNOWN))
    delete("delete by an unknown permission", m.AclFilter(permission=UNKNOWN))
    delete("delete what nobody has", m.AclFilter(principal="User:eve"))
    delete("delete by filters of which one is wrong", m.AclFilter(principal="User:eve"),
           m.AclFilter(UNKNOWN))  # fmt: skip
    delete("delete by filters that overlap", m.AclFilter(TOPIC, "a", LITERAL),
           m.AclFilter(TOPIC, operation=WRITE))  # fmt: skip
    delete("delete by MATCH", m.AclFilter(TOPIC, "abc", MATCH))
    show("describe what is left")
    delete("delete the rest", m.AclFilter())
    show("describe at the end")


def disabled(talk: Talk) -> None:
    """Brokers without an authorizer refuse them."""
    talk.ask("create", m.CreateAclsRequest((entry(READ, "a"), entry(ANY, "a"))))
    talk.ask("create none", m.CreateAclsRequest(()))
    talk.ask("describe", m.DescribeAclsRequest(m.AclFilter()))
    talk.ask("describe by an unknown operation", m.DescribeAclsRequest(m.AclFilter(UNKNOWN)))
    talk.ask("delete", m.DeleteAclsRequest((m.AclFilter(), m.AclFilter(UNKNOWN))))
    talk.ask("delete by no filter", m.DeleteAclsRequest(()))
