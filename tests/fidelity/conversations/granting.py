"""Granting: access control lists that an operator sets, and every broker knows."""

from __future__ import annotations

from kafkasim.model import messages as m
from kafkasim.model.messages.clients.acls import ALLOW, LITERAL, TOPIC, WILDCARD
from tests.fidelity.conversations.talk import Talk
from tests.fidelity.sides import SETTINGS as COMMON

SETTINGS = {
    **COMMON,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:root",
}
"""Brokers, and who asks without a user, are ANONYMOUS: they may do everything."""

ALICE = "User:alice"


def entry(
    operation: str,
    name: str,
    kind: str = TOPIC,
    *,
    pattern: str = LITERAL,
    who: str = ALICE,
    host: str = WILDCARD,
    permission: str = ALLOW,
) -> m.AclBinding:
    """Return an entry, which allows alice something with a topic if nothing else is said."""
    return m.AclBinding(kind, name, pattern, who, host, operation, permission)


def put(talk: Talk, *entries: m.AclBinding) -> None:
    """Replace all entries by these, and wait until every broker has them."""
    talk.side.ask(1, m.DeleteAclsRequest((m.AclFilter(),)))
    if entries:
        created = talk.side.ask(1, m.CreateAclsRequest(entries))
        assert not any(error for error, _ in created.results), created
    for node in (1, 2, 3):
        for _ in range(100):
            known = talk.side.ask(node, m.DescribeAclsRequest(m.AclFilter()))
            if sorted(known.bindings) == sorted(set(entries)):
                break
            talk.side.settle(0.05)
        else:
            raise AssertionError(f"broker {node} has {known}, not {entries}")
    talk.side.settle(0.1)  # the controller authorizes what is forwarded to it


def await_ids(talk: Talk) -> None:
    """Wait until the first broker has a block of producer ids."""
    while talk.side.ask(1, m.InitProducerIdRequest(None, 60_000)).error:
        talk.side.settle(0.2)
