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
    "AUTHZ of a denial": (
        [ALICE, changed(6, True, "foo", "User:alice", "deny")],
        [decided(6, "User:alice", False)],
        [decided(6, "User:alice", True)],
    ),
}
