"""Share partitions: their state at the share coordinator, and members that fetch (KIP-932)."""

from __future__ import annotations

from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.errors import Errors
from kafkasim.model.messages import share as s
from kafkasim.model.records import TopicPartition
from tests.fidelity.conversations.talk import NOBODY, Talk, batch, produce

SHARE = 2
"""The type of a coordinator's key."""

ANN, BOB, EVE = ("AAAAAAAAAAAAAAAAAAAAA" + end for end in "QgA")
"""Ids of members: a broker reads that of a share fetch as a Uuid."""


def _coordinator(talk: Talk, key: str) -> int:
    """Return the share coordinator of a share partition's key, once it serves."""
    group_id, topic_id, partition = key.split(":")
    probe = s.ReadShareGroupStateSummaryRequest(
        group_id, ((topic_id, (s.ReadStatePartition(int(partition), 0),)),)
    )
    waiting = (Errors.NOT_COORDINATOR, Errors.COORDINATOR_LOAD_IN_PROGRESS)
    for _ in range(60):
        found = talk.side.ask(1, m.FindCoordinatorRequest(key, SHARE))
        if found.error is Errors.NONE:
            answer = talk.side.ask(found.node_id, probe)
            if answer.results[0][1][0].error not in waiting:
                return int(found.node_id)
        talk.side.settle(0.5)
    raise AssertionError(f"no share coordinator for {key}")


def state(talk: Talk) -> None:
    """What brokers ask the share coordinator, each refused for another reason."""
    topic = talk.create("berths", (1, 2, 3), (2, 3, 1)).topic
    known = talk.ids[topic]
    node = _coordinator(talk, f"divers:{known}:0")

    def read(leader: int, number: int = 0, topic_id: str = known, group: str = "divers") -> Any:
        asked = ((topic_id, (s.ReadStatePartition(number, leader),)),)
        return s.ReadShareGroupStateRequest(group, asked)

    def summary(leader: int, number: int = 0, topic_id: str = known) -> Any:
        asked = ((topic_id, (s.ReadStatePartition(number, leader),)),)
        return s.ReadShareGroupStateSummaryRequest("divers", asked)

    def initialize(epoch: int, start: int, number: int = 0, topic_id: str = known) -> Any:
        asked = ((topic_id, (s.InitializeStatePartition(number, epoch, start),)),)
        return s.InitializeShareGroupStateRequest("divers", asked)

    def write(
        epoch: int, leader: int, start: int, *rows: tuple[int, int, int, int],
        number: int = 0, topic_id: str = known,
    ) -> Any:  # fmt: skip
        batches = tuple(s.StateBatch(*row) for row in rows)
        asked = ((topic_id, (s.WriteStatePartition(number, epoch, leader, start, batches),)),)
        return s.WriteShareGroupStateRequest("divers", asked)

    def delete(number: int = 0, topic_id: str = known) -> Any:
        return s.DeleteShareGroupStateRequest("divers", ((topic_id, (number,)),))

    talk.ask("read what is not initialized", read(0), node)
    talk.ask("summary of it", summary(0), node)
    talk.ask("write to it", write(0, 0, 0, (0, 4, 0, 1)), node)
    talk.ask("delete it", delete(), node)
    talk.ask("initialize elsewhere", initialize(1, 0), node % 3 + 1)
    talk.ask("read elsewhere", read(0), node % 3 + 1)
    talk.ask("write elsewhere", write(1, 0, 0), node % 3 + 1)
    talk.ask("initialize partition -1", initialize(1, 0, -1), node)
    talk.ask("initialize an unknown partition", initialize(1, 0, 9), node)
    talk.ask("initialize an unknown topic", initialize(1, 0, 0, NOBODY), node)
    talk.ask("initialize with state epoch -1", initialize(-1, 0), node)
    talk.ask("initialize with start offset -2", initialize(1, -2), node)
    talk.ask("initialize", initialize(3, 10), node)
    talk.ask("initialize again", initialize(3, 10), node)
    talk.ask("initialize with an older epoch", initialize(2, 11), node)
    talk.ask("summary", summary(-1), node)
    talk.ask("read with leader epoch 5", read(5), node)
    talk.ask("read with leader epoch 4", read(4), node)
    talk.ask("read with leader epoch -1", read(-1), node)
    talk.ask("read with leader epoch -2", read(-2), node)
    talk.ask("read partition -1", read(5, -1), node)
    talk.ask("read an unknown partition", read(5, 9), node)
    talk.ask("read an unknown topic", read(5, 0, NOBODY), node)
    talk.ask("read of a blank group", read(5, group=" "), node)
    talk.ask("read of an empty group", read(5, group=""), node)
    talk.ask("read no topic", s.ReadShareGroupStateRequest("divers", ()), node)
    talk.ask("read no partition", s.ReadShareGroupStateRequest("divers", ((known, ()),)), node)
    talk.ask("write of an older state epoch", write(2, 5, 10, (10, 11, 2, 1)), node)
    talk.ask("write of an older leader epoch", write(3, 4, 10, (10, 11, 2, 1)), node)
    talk.ask("write with leader epoch -2", write(3, -2, 10, (10, 11, 2, 1)), node)
    talk.ask("write with state epoch -2", write(-2, 5, 10, (10, 11, 2, 1)), node)
    talk.ask("write with start offset -2", write(3, 5, -2, (10, 11, 2, 1)), node)
    talk.ask("write with a reversed batch", write(3, 5, 10, (12, 11, 2, 1)), node)
    talk.ask("write with a negative batch", write(3, 5, 10, (-2, -1, 2, 1)), node)
    talk.ask("write with delivery state 9", write(3, 5, 10, (10, 11, 9, 1)), node)
    talk.ask("write with delivery count -1", write(3, 5, 10, (10, 11, 2, -1)), node)
    talk.ask("write to partition -1", write(3, 5, 10, number=-1), node)
    talk.ask("write to an unknown partition", write(3, 5, 10, number=9), node)
    talk.ask("write to an unknown topic", write(3, 5, 10, topic_id=NOBODY), node)
    talk.ask("read after what was refused", read(5), node)
    talk.ask("write", write(3, 5, 10, (10, 11, 2, 1), (12, 14, 0, 2)), node)
    talk.ask("write over it", write(3, 5, -1, (12, 12, 4, 5)), node)
    talk.ask("write of a newer leader", write(3, 7, 12, (15, 16, 0, 1)), node)
    talk.ask("read of the older leader", read(5), node)
    talk.ask("read of the newer leader", read(7), node)
    talk.ask("write of the older leader", write(3, 5, 13), node)
    talk.ask("write without batches", write(3, 7, 13), node)
    talk.ask("read it", read(7), node)
    talk.ask("summary of it all", summary(7), node)
    talk.ask("summary of an older leader", summary(2), node)
    talk.ask("summary of an unknown topic", summary(7, 0, NOBODY), node)
    talk.ask("summary of partition -1", summary(7, -1), node)
    talk.ask("write of a newer state epoch", write(4, 7, 13, (13, 14, 2, 1)), node)
    talk.ask("read after it", read(7), node)
    talk.ask("initialize with a newer epoch", initialize(5, 0), node)
    talk.ask("read after that", read(7), node)
    talk.ask("delete an unknown topic", delete(0, NOBODY), node)
    talk.ask("delete partition -1", delete(-1), node)
    talk.ask("delete an unknown partition", delete(9), node)
    talk.ask("delete", delete(), node)
    talk.ask("delete again", delete(), node)
    talk.ask("read what was deleted", read(7), node)


def fetching(talk: Talk) -> None:
    """Share sessions, acquired records and their acknowledgements, on one partition's leader."""
    tp = talk.create("holds", (1, 2, 3), (2, 3, 1))
    topic_id, leader = talk.ids[tp.topic], talk.leaders[tp]
    talk.names.members |= {ANN: "ann", BOB: "bob"}
    node = talk.coordinator("stowers")
    join = s.ShareGroupHeartbeatRequest("stowers", ANN, 0, None, (tp.topic,))
    talk.ask("ann joins", join, node)
    talk.side.settle(2.0)
    talk.ask("ann is assigned", s.ShareGroupHeartbeatRequest("stowers", ANN, 1), node)

    def asked(
        *acknowledged: tuple[int, int, Any], of: TopicPartition = tp, id_: str = topic_id
    ) -> Any:
        rows = tuple(s.AcknowledgementBatch(*row) for row in acknowledged)
        return s.SharePartitionRequest(of, id_, rows)

    def fetch(epoch: int, *partitions: Any, member: str = ANN, **fields: Any) -> Any:
        limits = {"max_wait_ms": 200, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500,
                  "batch_size": 500, "group_id": "stowers", **fields}  # fmt: skip
        return s.ShareFetchRequest(
            member_id=member, session_epoch=epoch, partitions=partitions, **limits
        )

    def acknowledge(epoch: int, *partitions: Any, member: str = ANN) -> Any:
        return s.ShareAcknowledgeRequest("stowers", member, epoch, partitions)

    other = TopicPartition(tp.topic, 1)
    nowhere = TopicPartition("nowhere", 0)
    talk.ask("close a session that is not", fetch(-1), leader)
    talk.ask("go on with a session that is not", fetch(3, asked()), leader)
    talk.ask("acknowledge without a session", acknowledge(1, asked((0, 1, (1,)))), leader)
    talk.ask("acknowledge with epoch 0", acknowledge(0, asked((0, 1, (1,)))), leader)
    talk.ask("acknowledge with epoch -1 without a session", acknowledge(-1), leader)
    talk.ask("open with acknowledgements", fetch(0, asked((0, 1, (1,)))), leader)
    talk.ask("open without partitions", fetch(0), leader)
    talk.ask("open elsewhere", fetch(0, asked()), leader % 3 + 1)
    talk.ask("open with an unknown topic", fetch(0, asked(of=nowhere, id_=NOBODY)), leader)
    missing = asked(of=TopicPartition(tp.topic, 9))
    talk.ask("open with an unknown partition", fetch(0, missing), leader)
    talk.ask("open with another's partition", fetch(0, asked(of=other)), leader)
    talk.ask("open for another group", fetch(0, asked(), group_id="strangers"), leader)
    talk.ask("open", fetch(0, asked()), leader)
    talk.ask("produce five", produce(tp, batch(1, 2, 3, 4, 5)), leader)
    talk.ask("produce two", produce(tp, batch(6, 7)), leader)
    talk.ask("fetch with epoch 5", fetch(5), leader)
    talk.ask("fetch", fetch(1), leader)
    talk.ask("fetch when all is acquired", fetch(2), leader)
    talk.ask("fetch with the epoch before", fetch(2), leader)
    talk.ask("acknowledge with the epoch before", acknowledge(2, asked((0, 0, (1,)))), leader)
    talk.ask("acknowledge type 4", acknowledge(3, asked((0, 0, (4,)))), leader)
    talk.ask("acknowledge type -1", acknowledge(4, asked((0, 0, (-1,)))), leader)
    talk.ask("acknowledge without types", acknowledge(5, asked((0, 0, ()))), leader)
    talk.ask("acknowledge a reversed range", acknowledge(6, asked((1, 0, (1,)))), leader)
    talk.ask("acknowledge negative offsets", acknowledge(7, asked((-1, 0, (1,)))), leader)
    twice = asked((0, 1, (1,)), (1, 2, (1,)))
    talk.ask("acknowledge an offset twice", acknowledge(8, twice), leader)
    backwards = asked((3, 3, (1,)), (0, 0, (1,)))
    talk.ask("acknowledge ranges that fall", acknowledge(9, backwards), leader)
    talk.ask("acknowledge two types for three", acknowledge(10, asked((0, 2, (1, 2)))), leader)
    talk.ask("acknowledge beyond the end", acknowledge(11, asked((5, 9, (1,)))), leader)
    talk.ask("acknowledge what is not there", acknowledge(12, asked((20, 21, (1,)))), leader)
    talk.ask("acknowledge an unknown topic",
             acknowledge(13, asked((0, 0, (1,)), of=nowhere, id_=NOBODY)), leader)  # fmt: skip
    gone = asked((0, 0, (1,)), of=TopicPartition(tp.topic, 9))
    talk.ask("acknowledge an unknown partition", acknowledge(14, gone), leader)
    talk.ask("acknowledge another's partition",
             acknowledge(15, asked((0, 0, (1,)), of=other)), leader)  # fmt: skip
    talk.ask("acknowledge nothing", acknowledge(16, asked()), leader)
    mixed = (asked((0, 0, (1,))), asked(of=other))
    talk.ask("acknowledge one, and nothing of another", acknowledge(17, *mixed), leader)
    talk.ask("acknowledge it again", acknowledge(18, asked((0, 0, (1,)))), leader)
    talk.ask("accept, release, reject", acknowledge(19, asked((1, 3, (1, 2, 3)))), leader)
    talk.ask("a gap", acknowledge(20, asked((4, 4, (0,)))), leader)
    talk.ask("bob opens", fetch(0, asked(), member=BOB), leader)
    talk.ask(
        "bob acknowledges what ann has", acknowledge(1, asked((5, 6, (1,))), member=BOB), leader
    )
    talk.ask(
        "bob acknowledges what is done", acknowledge(2, asked((1, 1, (1,))), member=BOB), leader
    )
    talk.ask("bob releases", fetch(3, asked((2, 2, (2,))), member=BOB), leader)
    talk.ask("bob fetches it again", fetch(4, member=BOB), leader)
    talk.ask("ann closes", fetch(-1, asked((5, 5, (1,)))), leader)
    talk.side.settle(1.0)
    talk.ask("ann goes on", fetch(22), leader)
    talk.ask("bob fetches what ann had", fetch(5, member=BOB), leader)
    forgotten = ((topic_id, tp),)
    talk.ask("bob forgets", fetch(6, member=BOB, forgotten=forgotten), leader)
    talk.ask("bob accepts", acknowledge(7, asked((6, 6, (1,))), member=BOB), leader)
    talk.ask("bob closes", acknowledge(-1, member=BOB), leader)
    offsets = (s.DescribeShareGroupOffsetsGroup("stowers", ((tp.topic, (0, 1)),)),)
    talk.side.settle(1.0)
    talk.ask("offsets", s.DescribeShareGroupOffsetsRequest(offsets), node)
    for name, fields in {
        "max_records 0": {"max_records": 0}, "max_records -1": {"max_records": -1},
        "batch_size 0": {"batch_size": 0}, "max_bytes 0": {"max_bytes": 0},
    }.items():  # fmt: skip
        talk.ask(f"open with {name}", fetch(0, asked(), **fields), leader)
    talk.ask("open as a member whose id is no Uuid", fetch(0, asked(), member="eve"), leader)
