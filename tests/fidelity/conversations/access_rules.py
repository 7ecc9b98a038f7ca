"""What the entries about a resource allow together (StandardAuthorizer, KIP-801).

A line has what alice may do with the topic ``foobar`` by one set of entries: produce (WRITE), fetch
(READ), list offsets (DESCRIBE), change a setting (ALTER_CONFIGS), and have an id for an idempotent
producer, which needs WRITE on any topic.
"""

from __future__ import annotations

from kafkasim.model import messages as m
from kafkasim.model.messages.clients.acls import (
    ALL,
    ALTER,
    ALTER_CONFIGS,
    DELETE,
    DENY,
    DESCRIBE,
    GROUP,
    PREFIXED,
    READ,
    TOPIC,
    WRITE,
)
from kafkasim.model.records import TopicPartition
from tests.fidelity.conversations.granting import await_ids, entry, put
from tests.fidelity.conversations.talk import Talk, batch, produce

FOOBAR = TopicPartition("foobar", 0)
HERE, ELSEWHERE = "127.0.0.1", "10.1.1.1"

SETS: dict[str, tuple[m.AclBinding, ...]] = {
    "no entry": (),
    "allow WRITE": (entry(WRITE, "foobar"),),
    "allow READ": (entry(READ, "foobar"),),
    "allow DESCRIBE": (entry(DESCRIBE, "foobar"),),
    "allow DELETE": (entry(DELETE, "foobar"),),
    "allow ALTER": (entry(ALTER, "foobar"),),
    "allow ALTER_CONFIGS": (entry(ALTER_CONFIGS, "foobar"),),
    "allow ALL": (entry(ALL, "foobar"),),
    "allow WRITE on another topic": (entry(WRITE, "other"),),
    "allow WRITE on a longer name": (entry(WRITE, "foobarbaz"),),
    "allow WRITE on a prefix": (entry(WRITE, "foo", pattern=PREFIXED),),
    "allow WRITE on a prefix of one letter": (entry(WRITE, "f", pattern=PREFIXED),),
    "allow WRITE on the name as prefix": (entry(WRITE, "foobar", pattern=PREFIXED),),
    "allow WRITE on another prefix": (entry(WRITE, "foo_x", pattern=PREFIXED),),
    "allow WRITE on a prefix, READ on another one between": (
        entry(WRITE, "f", pattern=PREFIXED),
        entry(READ, "foo_x", pattern=PREFIXED),
    ),
    "allow WRITE on the literal *": (entry(WRITE, "*"),),
    "allow WRITE on the prefix *": (entry(WRITE, "*", pattern=PREFIXED),),
    "allow READ on a group of the name": (entry(READ, "foobar", GROUP),),
    "allow everybody WRITE": (entry(WRITE, "foobar", who="User:*"),),
    "allow bob WRITE": (entry(WRITE, "foobar", who="User:bob"),),
    "allow Group:alice WRITE": (entry(WRITE, "foobar", who="Group:alice"),),
    "allow user:alice WRITE": (entry(WRITE, "foobar", who="user:alice"),),
    "allow Group:* WRITE": (entry(WRITE, "foobar", who="Group:*"),),
    "allow WRITE from here": (entry(WRITE, "foobar", host=HERE),),
    "allow WRITE from elsewhere": (entry(WRITE, "foobar", host=ELSEWHERE),),
    "allow WRITE from localhost": (entry(WRITE, "foobar", host="localhost"),),
    "allow and deny WRITE": (entry(WRITE, "foobar"), entry(WRITE, "foobar", permission=DENY)),
    "allow ALL, deny WRITE": (entry(ALL, "foobar"), entry(WRITE, "foobar", permission=DENY)),
    "allow ALL, deny READ": (entry(ALL, "foobar"), entry(READ, "foobar", permission=DENY)),
    "allow ALL, deny DESCRIBE": (entry(ALL, "foobar"), entry(DESCRIBE, "foobar", permission=DENY)),
    "allow WRITE, deny ALL": (entry(WRITE, "foobar"), entry(ALL, "foobar", permission=DENY)),
    "allow ALL, deny WRITE on a prefix": (
        entry(ALL, "foobar"),
        entry(WRITE, "foo", pattern=PREFIXED, permission=DENY),
    ),
    "allow ALL on a prefix, deny WRITE": (
        entry(ALL, "foo", pattern=PREFIXED),
        entry(WRITE, "foobar", permission=DENY),
    ),
    "allow ALL on a long prefix, deny WRITE on a short one": (
        entry(ALL, "foob", pattern=PREFIXED),
        entry(WRITE, "f", pattern=PREFIXED, permission=DENY),
    ),
    "allow ALL, deny WRITE on the literal *": (
        entry(ALL, "foobar"),
        entry(WRITE, "*", permission=DENY),
    ),
    "allow ALL on the literal *, deny WRITE": (
        entry(ALL, "*"),
        entry(WRITE, "foobar", permission=DENY),
    ),
    "allow WRITE on all, deny it on the prefix f": (
        entry(WRITE, "*"),
        entry(WRITE, "f", pattern=PREFIXED, permission=DENY),
    ),
    "allow ALL, deny everybody WRITE": (
        entry(ALL, "foobar"),
        entry(WRITE, "foobar", who="User:*", permission=DENY),
    ),
    "allow everybody ALL, deny bob WRITE": (
        entry(ALL, "foobar", who="User:*"),
        entry(WRITE, "foobar", who="User:bob", permission=DENY),
    ),
    "allow ALL, deny WRITE from here": (
        entry(ALL, "foobar"),
        entry(WRITE, "foobar", host=HERE, permission=DENY),
    ),
    "allow ALL, deny WRITE from elsewhere": (
        entry(ALL, "foobar"),
        entry(WRITE, "foobar", host=ELSEWHERE, permission=DENY),
    ),
    "deny WRITE": (entry(WRITE, "foobar", permission=DENY),),
    "deny WRITE on another topic": (entry(WRITE, "other", permission=DENY),),
    "deny WRITE on the literal *": (entry(WRITE, "*", permission=DENY),),
    "deny bob WRITE": (entry(WRITE, "foobar", who="User:bob", permission=DENY),),
    "deny bob WRITE on the literal *": (entry(WRITE, "*", who="User:bob", permission=DENY),),
    "allow bob WRITE on another prefix": (entry(WRITE, "foo_x", pattern=PREFIXED, who="User:bob"),),
    "deny a super user everything": (entry(ALL, "foobar", who="User:root", permission=DENY),),
}
"""What a set of entries is called, and its entries."""


def rules(talk: Talk) -> None:
    """Everything that alice may do, by each set of entries."""
    tp = talk.create("foobar")
    await_ids(talk)
    for name, entries in SETS.items():
        put(talk, *entries)
        who = "root" if "super user" in name else "alice"
        talk.lines.append(f"{talk.name} / {name}: {_allowed(talk, tp, who)}")
    put(talk)


def _allowed(talk: Talk, tp: TopicPartition, user: str) -> str:
    """Return what a user may do with the topic, and what else the answers say."""
    asked = m.FetchPartition(tp, talk.ids[tp.topic], 0, -1, -1, -1, 1 << 20)
    config = m.AlterableConfig(TOPIC, tp.topic, (("retention.ms", "-2"),))
    sent = talk.side.ask(1, produce(tp, batch(1)), user).partitions[0]
    fetched = talk.side.ask(1, m.FetchRequest(-1, -1, 0, 1, 1 << 20, 0, (asked,)), user)
    listing = m.ListOffsetsRequest(-1, 0, (m.ListOffsetsPartition(tp, -1, -2),))
    found = {
        "write": sent.error,
        "read": fetched.partitions[0].error,
        "describe": talk.side.ask(1, listing, user).partitions[0].error,
        "alter-configs": talk.side.ask(1, m.IncrementalAlterConfigsRequest((config,)), user)
        .results[0][2],
        "write any": talk.side.ask(1, m.InitProducerIdRequest(None, 60_000), user).error,
    }  # fmt: skip
    return " ".join(f"{what}={error.name}" for what, error in found.items())
