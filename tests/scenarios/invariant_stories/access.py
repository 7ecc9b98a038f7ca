"""Access control: decisions of brokers on the entries of their images."""

from __future__ import annotations

from kafkasim.model import facts
from tests.scenarios.fact_makers import Row
from tests.scenarios.invariant_stories.common import Stories


def changed(offset: int, added: bool, name: str, who: str, permission: str = "allow") -> Row:
    """A controller commits an entry about WRITE on topics whose names begin so."""
    return "controller-1", facts.AclChanged(
        offset, added, f"{who}-{name}", "topic", name, "prefixed", who, "*", "write", permission
    )


def decided(offset: int, who: str, allowed: bool, node: str = "broker-1") -> Row:
    """A broker whose image has come to an offset decides on WRITE on the topic foobar."""
    return node, facts.Authorized(who, "h", "write", "topic", "foobar", allowed, "", offset)


ALICE = changed(5, True, "f", "User:alice")


def entry(offset: int, identity: str) -> Row:
    """A controller commits an entry about READ on the topic foo, under some id."""
    return "controller-1", facts.AclChanged(
        offset, True, identity, "topic", "foo", "literal", "User:bob", "*", "read", "allow"
    )


def quota(offset: int, resource: str, value: str | None) -> Row:
    return "controller-1", facts.ConfigChanged(offset, resource, "producer_byte_rate", value)


def throttled(offset: int, rate: str) -> Row:
    """A broker whose image has come to an offset throttles client a of user u."""
    return "broker-1", facts.Throttled("a", "Produce", 9, "u", "producer_byte_rate", rate, offset)


def committed(offset: int) -> Row:
    """The last offset of a change."""
    return "controller-1", facts.MetadataCommitted(offset, 1, offset)


STORIES: Stories = {
    "AUTHZ by a prefix with a neighbour": (
        [ALICE, changed(6, True, "foo_x", "User:bob")],
        [decided(6, "User:alice", True), decided(6, "User:bob", False)],
        [decided(6, "User:alice", False)],
    ),
    "AUTHZ after a removal": (
        [ALICE, changed(9, False, "f", "User:alice")],
        [decided(9, "User:alice", False), decided(8, "User:alice", True, "broker-2")],
        [decided(9, "User:alice", True)],
    ),
    "AUTHZ amid a change": (
        [
            *[ALICE, changed(6, True, "foo", "User:alice", "deny"), committed(6)],
            *[changed(7, False, "foo", "User:alice", "deny"), changed(8, False, "f", "User:alice")],
            committed(8),
        ],
        [decided(7, "User:alice", False)],
        [decided(7, "User:alice", True)],
    ),
    "AUTHZ after a restart": (
        [ALICE, decided(5, "User:alice", True)],
        [decided(6, "User:alice", True), decided(3, "User:alice", False, "broker-2")],
        [decided(3, "User:alice", False)],
    ),
    "META of an entry that is there": (
        [entry(5, "x")],
        [entry(5, "x")],
        [entry(7, "y")],
    ),
    "RATE of a user before a client": (
        [quota(5, "client-id:a", "10"), quota(6, "user:u", "20")],
        [throttled(5, "10"), throttled(6, "20")],
        [throttled(6, "10")],
    ),
    "RATE after a removal": (
        [quota(5, "user:<default>", "10"), quota(8, "user:<default>", None)],
        [throttled(7, "10")],
        [throttled(8, "10")],
    ),
    "AUTHZ of a denial": (
        [ALICE, changed(6, True, "foo", "User:alice", "deny")],
        [decided(6, "User:alice", False)],
        [decided(6, "User:alice", True)],
    ),
}
