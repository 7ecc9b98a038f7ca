"""Requests of which a user may have one part and not another, and the order of the checks.

alice has all rights on the topic, group and transactional id ``own``, and none on ``secret``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.messages.clients.acls import (
    ALL,
    CLUSTER,
    CLUSTER_NAME,
    DELETE,
    DESCRIBE,
    GROUP,
    PREFIXED,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
)
from kafkasim.model.records import TopicPartition
from tests.fidelity.conversations.granting import await_ids, entry, put
from tests.fidelity.conversations.talk import NOBODY, Talk, batch, produce
from tests.fidelity.conversations.transactions import Transactions

OWN, SECRET, NOWHERE = (TopicPartition(name, 0) for name in ("own", "secret", "nowhere"))
BOTH = OWN, SECRET
RIGHTS = tuple(entry(ALL, "own", kind) for kind in (TOPIC, GROUP, TRANSACTIONAL_ID))


Ask = Callable[..., Any]
"""Asks as alice: what is asked, the request, and the broker that is asked."""


def of_data(talk: Talk) -> None:
    """Produce, Fetch, Metadata and their kind."""
    ask: Ask = partial(talk.ask, user="alice")
    for tp in BOTH:
        talk.create(tp.topic)
    put(talk, *RIGHTS)
    _produced(ask)
    talk.side.settle(0.5)  # the followers copy what acks=1 has not waited for
    _fetched(talk, ask)
    asked = tuple(m.ListOffsetsPartition(tp, -1, -1) for tp in (SECRET, OWN, NOWHERE))
    ask("list offsets of three", m.ListOffsetsRequest(-1, 0, asked))
    ended = tuple(m.OffsetForLeaderEpochPartition(tp, -1, 0) for tp in (SECRET, OWN, NOWHERE))
    ask("epochs of three", m.OffsetsForLeaderEpochRequest(-2, ended))
    before = tuple((tp, 0) for tp in (SECRET, OWN, NOWHERE))
    ask("delete records of three", m.DeleteRecordsRequest(before, 5000))
    ask("describe producers of three", m.DescribeProducersRequest((SECRET, OWN, NOWHERE)))
    for what, topics in {
        "three topics": ("secret", "own", "nowhere"), "all topics": None, "no topic": (),
        "a secret topic": ("secret",), "a topic that may not be": ("a b",),
        "secret twice": ("secret", "secret"),
    }.items():  # fmt: skip
        ask(f"metadata of {what}", m.MetadataRequest(topics, False))
    ask("metadata with creation", m.MetadataRequest(("secret", "own", "nowhere"), True))


def _produced(ask: Ask) -> None:
    pair = tuple(m.ProducePartition(tp, batch(1)) for tp in BOTH)
    third = m.ProducePartition(NOWHERE, batch(1))
    away = m.ProducePartition(TopicPartition("own", 7), batch(1))
    tid = {"transactional_id": "secret"}
    for what, partitions, fields in (
        ("to both", pair, {}),
        ("to both, acks=1", pair, {"acks": 1}),
        ("to both, acks=0", pair, {"acks": 0}),
        ("to its own, acks=0", pair[:1], {"acks": 0}),
        ("to both, acks=2", pair, {"acks": 2}),
        ("to the secret one, acks=2", pair[1:], {"acks": 2}),
        ("to what is not and to the secret one", (third, pair[1]), {}),
        ("to an unknown partition and the secret one", (away, pair[1]), {}),
        ("of a secret transaction", pair, tid),
        ("of a secret transaction, acks=0", pair, {"acks": 0, **tid}),
        ("of a secret transaction, acks=1", pair, {"acks": 1, **tid}),
    ):
        request = m.ProduceRequest(fields.pop("acks", -1), 5000, partitions, **fields)
        ask(f"produce {what}", request)
    bad = m.ProducePartition(SECRET, batch(1, producer_id=5, producer_epoch=0, base_sequence=9))
    ask("produce a gap to the secret one", m.ProduceRequest(-1, 5000, (bad,)))
    ask("produce to the secret one through a follower", produce(SECRET, batch(1)), 2)
    ask("produce to both through a follower", m.ProduceRequest(-1, 5000, pair), 2)


def _fetched(talk: Talk, ask: Ask) -> None:
    def of(tp: TopicPartition, offset: int = 0, topic_id: str | None = None) -> m.FetchPartition:
        known = talk.ids.get(tp.topic, NOBODY) if topic_id is None else topic_id
        return m.FetchPartition(tp, known, offset, -1, -1, -1, 1 << 20)

    def fetch(*partitions: m.FetchPartition, **session: int) -> m.FetchRequest:
        return m.FetchRequest(-1, -1, 0, 1, 1 << 20, 0, partitions, **session)

    ask("fetch both", fetch(of(SECRET), of(OWN)))
    ask("fetch both by name", fetch(of(SECRET, topic_id=""), of(OWN, topic_id="")))
    ask("fetch what is not and the secret one", fetch(of(NOWHERE), of(SECRET)))
    ask("fetch beyond the end of the secret one", fetch(of(SECRET, 99)))
    ask("fetch the secret one from a follower", fetch(of(SECRET)), 2)
    opened = ask("open a session with both", fetch(of(SECRET), of(OWN), session_epoch=0))
    ask("go on with it", fetch(session_id=opened.session_id, session_epoch=1))
    put(talk, *RIGHTS, entry("read", "secret"))
    ask("go on once both may be read", fetch(session_id=opened.session_id, session_epoch=2))
    put(talk)
    ask("go on when none may be read", fetch(session_id=opened.session_id, session_epoch=3))
    put(talk, *RIGHTS)
    ask("go on with rights again", fetch(session_id=opened.session_id, session_epoch=4))


def of_groups(talk: Talk) -> None:
    """Requests to group and transaction coordinators."""
    ask: Ask = partial(talk.ask, user="alice")
    put(talk, *RIGHTS)
    node, coordinator = talk.coordinator("own"), Transactions(talk, 0, "own")

    def commit(group: str, *tps: TopicPartition) -> m.OffsetCommitRequest:
        return m.OffsetCommitRequest(group, -1, "", None, tuple((tp, 5, 0, "") for tp in tps))

    ask("commit both", commit("own", SECRET, OWN), node)
    ask("commit to a secret group", commit("secret", SECRET, OWN), node)
    ask("commit what is not and a secret one", commit("own", NOWHERE, SECRET), node)
    ask("commit the secret one", commit("own", SECRET), node)
    ask("commit nothing", commit("own"), node)
    ask("commit elsewhere", commit("own", SECRET, OWN), node % 3 + 1)
    talk.side.ask(node, commit("own", SECRET, OWN))
    talk.side.ask(node, commit("secret", SECRET, OWN))
    ask("fetch offsets of both", m.OffsetFetchRequest("own", (SECRET, OWN)), node)
    ask("fetch all offsets", m.OffsetFetchRequest("own", None), node)
    ask("fetch all of a secret group", m.OffsetFetchRequest("secret", None), node)
    ask("fetch a secret offset", m.OffsetFetchRequest("own", (SECRET,)), node)
    ask("fetch offsets elsewhere", m.OffsetFetchRequest("own", BOTH), node % 3 + 1)
    ask("delete offsets of three", m.OffsetDeleteRequest("own", (*BOTH, NOWHERE)), node)
    ask("delete offsets of a secret group", m.OffsetDeleteRequest("secret", BOTH), node)
    ask("describe both groups", m.DescribeGroupsRequest(("secret", "own", "nobody")), node)
    ask("describe both elsewhere", m.DescribeGroupsRequest(("secret", "own")), node % 3 + 1)
    ask("describe both as new ones", m.ConsumerGroupDescribeRequest(("secret", "own")), node)
    ask("list groups", m.ListGroupsRequest((), ()), node)
    ask("list no known state", m.ListGroupsRequest(("nonsense",), ()), node)
    ask("delete both groups", m.DeleteGroupsRequest(("secret", "own", "nobody")), node)
    ask("find no group", m.FindCoordinatorRequest(""))
    ask("find an unknown type", m.FindCoordinatorRequest("own", 9))
    for group in ("", "secret"):
        beat = m.HeartbeatRequest(group, 1, "m", None)
        ask(f"heartbeat of the group {group!r}", beat, node)
        leave = m.LeaveGroupRequest(group, (("m", None, ""), ("n", None, "")))
        ask(f"leave the group {group!r}", leave, node)

    def subscribe(group: str, *topics: str) -> m.ConsumerGroupHeartbeatRequest:
        member = "AAAAAAAAAAAAAAAAAAAAQg"
        return m.ConsumerGroupHeartbeatRequest(
            group, member, 0, None, None, 30_000, topics, None, None, ()
        )

    ask("subscribe to both", subscribe("own", "own", "secret"), node)
    ask("subscribe to what is not", subscribe("own", "own", "nowhere"), node)
    ask("subscribe to both in a secret group", subscribe("secret", "own", "secret"), node)
    _in_transactions(ask, coordinator, node)


def _in_transactions(ask: Ask, t: Transactions, node: int) -> None:
    nobody = (7, 0)
    ask("begin with a secret id", m.InitProducerIdRequest("secret", -1), t.node)
    ask("begin with a secret id and no producer", m.InitProducerIdRequest("secret", 0, 5, -1),
               t.node)  # fmt: skip
    ask("begin with an empty id", m.InitProducerIdRequest("", 60_000), t.node)
    ask("add both", t.add(nobody, *BOTH), t.node)
    ask("add three", t.add(nobody, *BOTH, NOWHERE), t.node)
    ask("add what is not", t.add(nobody, OWN, NOWHERE), t.node)
    ask("add both to a secret id", t.add(nobody, *BOTH, id="secret"), t.node)
    ask("add as a broker", t.add(nobody, *BOTH, verify_only=True), t.node)
    for tid, group in (("own", "secret"), ("secret", "own"), ("secret", "secret")):
        adding = m.AddOffsetsToTxnRequest(tid, *nobody, group)
        ask(f"add offsets of the group {group} to the id {tid}", adding, t.node)
        commit = t.commit(nobody, group, SECRET, id=tid)
        ask(f"commit offsets of the group {group} with the id {tid}", commit, node)
    ask("commit a secret offset", t.commit(nobody, "own", SECRET), node)
    three = tuple((tp, 5, 0, "") for tp in (SECRET, OWN, NOWHERE))
    commit = m.TxnOffsetCommitRequest("own", "own", *nobody, -1, "", None, three, 0)
    ask("commit three offsets", commit, node)
    ask("end a secret id", t.end(nobody, True, "secret"), t.node)
    described = m.DescribeTransactionsRequest(("secret", "own", ""))
    ask("describe three ids", described, t.node)
    markers = m.WritableTxnMarker(*nobody, True, BOTH, 0)
    ask("write markers", m.WriteTxnMarkersRequest((markers, markers)), 1)


def of_operators(talk: Talk) -> None:
    """What is forwarded to the controller, which authorizes it."""
    ask: Ask = partial(talk.ask, user="alice")
    ids = {each.topic: talk.create(each.topic) and talk.ids[each.topic]
           for each in (TopicPartition("guarded", 0), TopicPartition("shown", 0))}  # fmt: skip
    put(talk, *RIGHTS, entry(DESCRIBE, "shown"))

    def create(what: str, *names: str, partitions: int = 1) -> None:
        topics = tuple(m.CreatableTopic(name, partitions, 1, (), ()) for name in names)
        ask(f"create {what}", m.CreateTopicsRequest(topics, 10_000))

    def delete(what: str, *topics: tuple[str, str]) -> None:
        ask(f"delete {what}", m.DeleteTopicsRequest(topics, 10_000))

    create("both", "secret", "own")
    create("what may not be", "a b", ".")
    create("one twice", "secret", "secret")
    create("one of no partition", "secret", partitions=0)
    create("an internal one", "__consumer_offsets")
    delete("by name", ("secret", ""), ("guarded", ""), ("nowhere", ""), ("own-not", ""))
    delete("by id", ("", ids["guarded"]), ("", NOBODY))
    delete("by the id of what it may describe", ("", ids["shown"]))
    delete("by name what it may describe", ("shown", ""))
    delete("one twice", ("guarded", ""), ("guarded", ""))
    delete("by name and id", ("shown", ""), ("", ids["shown"]))
    grown = [m.CreatePartitionsTopic(name, 1) for name in ("guarded", "own", "nowhere", "shown")]
    ask("grow four", m.CreatePartitionsRequest(tuple(grown)))
    ask("grow one twice", m.CreatePartitionsRequest((grown[0], grown[0])))
    wrong = (("retention.ms", "-2"),)
    resources = tuple(m.AlterableConfig(kind, name, wrong) for kind, name in (
        (TOPIC, "own"), (TOPIC, "guarded"), (TOPIC, "nowhere"), ("broker", "1"), ("broker", ""),
        (GROUP, "own"), (GROUP, "secret"), (TOPIC, ""),
    ))  # fmt: skip
    ask("change eight", m.IncrementalAlterConfigsRequest(resources))
    ask("change one twice", m.IncrementalAlterConfigsRequest((resources[1],) * 2))
    ask("elect leaders of all", m.ElectLeadersRequest(0, None))
    ask("elect a leader of what is not", m.ElectLeadersRequest(0, (NOWHERE,)))
    moved = m.ReassignablePartition(OWN, (1, 9))
    ask("reassign", m.AlterPartitionReassignmentsRequest((moved,)))
    ask("list reassignments", m.ListPartitionReassignmentsRequest((OWN, SECRET)))
    put(talk, entry(DELETE, "guarded", permission="deny"), entry(ALL, CLUSTER_NAME, CLUSTER))
    delete("with all rights on the cluster", ("guarded", ""), ("", ids["guarded"]))
    create("with all rights on the cluster", "guarded", "a b")
    put(talk)


def revoked(talk: Talk) -> None:
    """WRITE is taken away from a producer, and given back by a prefix."""
    ask: Ask = partial(talk.ask, user="alice")
    tp = talk.create("revoked")
    await_ids(talk)
    own = entry(WRITE, tp.topic)
    put(talk, own, entry(DESCRIBE, tp.topic))
    given = ask("an id", m.InitProducerIdRequest(None, 60_000))
    producer = {"producer_id": given.producer_id, "producer_epoch": given.producer_epoch}

    def send(what: str, sequence: int) -> None:
        ask(what, produce(tp, batch(sequence, base_sequence=sequence, **producer)))

    send("the first batch", 0)
    send("the second one", 1)
    put(talk, entry(DESCRIBE, tp.topic))
    send("the third one, when WRITE is gone", 2)
    ask("metadata then", m.MetadataRequest((tp.topic,), False))
    ask("another id", m.InitProducerIdRequest(None, 60_000))
    put(talk, entry(WRITE, "rev", pattern=PREFIXED))
    send("the third one, with a prefix", 2)
    put(talk, entry(WRITE, "rev", pattern=PREFIXED), entry(WRITE, tp.topic, permission="deny"))
    send("the fourth one, denied", 3)
    put(talk, own)
    send("the fifth one, which leaves a gap", 4)
    send("the fourth one", 3)
    put(talk)


CONVERSATIONS = {
    "parts of data": of_data,
    "parts of groups": of_groups,
    "parts of operators": of_operators,
    "revoked": revoked,
}
