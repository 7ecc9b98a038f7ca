"""Produce, Fetch, ListOffsets, OffsetsForLeaderEpoch, DeleteRecords, InitProducerId."""

from __future__ import annotations

from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.errors import Errors
from kafkasim.model.records import TopicPartition
from tests.fidelity.conversations.talk import NOBODY, Talk, batch, produce


def producing(talk: Talk) -> None:
    tp = talk.create("produced")
    away = TopicPartition("produced", 7)
    talk.ask("acks=all", produce(tp, batch(1, 2)))
    talk.ask("acks=1", produce(tp, batch(3), acks=1))
    talk.ask("acks=2", produce(tp, batch(4), acks=2))
    talk.ask("acks=-2", produce(tp, batch(4), acks=-2))
    talk.ask("to a follower", produce(tp, batch(4)), node=2)
    talk.ask("to an unknown topic", produce(TopicPartition("nowhere", 0), batch(4)))
    talk.ask("to an unknown partition", produce(away, batch(4)))
    two = (m.ProducePartition(tp, batch(5)), m.ProducePartition(away, batch(6)))
    talk.ask("one right, one unknown", m.ProduceRequest(-1, 5000, two))
    talk.ask("acks=2, one unknown", m.ProduceRequest(2, 5000, two))
    talk.ask("acks=2 to a follower", produce(tp, batch(4), acks=2), node=2)
    talk.ask("acks=0", produce(tp, batch(7), acks=0))
    talk.ask("acks=0 to a follower", produce(tp, batch(8), acks=0), node=2)
    talk.ask("acks=0 to an unknown topic", produce(TopicPartition("nowhere", 0), batch(8), acks=0))
    talk.ask("acks=0 to an unknown partition", produce(away, batch(8), acks=0), node=3)
    talk.ask("acks=all afterwards", produce(tp, batch(9)))
    small = talk.create("small", max_message_bytes="60")
    talk.ask("a batch over max.message.bytes", produce(small, batch(1)))
    strict = talk.create("strict", (1, 2), min_insync_replicas="3")
    talk.ask("acks=all below min ISR", produce(strict, batch(1)))
    talk.ask("acks=1 below min ISR", produce(strict, batch(1), acks=1))
    talk.ask("acks=0 below min ISR", produce(strict, batch(1), acks=0))
    both = (m.ProducePartition(tp, batch(10)), m.ProducePartition(strict, batch(11)))
    talk.ask("acks=all, one below min ISR", m.ProduceRequest(-1, 5000, both))


def idempotence(talk: Talk) -> None:
    tp = talk.create("idempotent")
    init = m.InitProducerIdRequest(None, 60_000)
    talk.ask("a producer id of a broker without a block of them", init)
    while talk.side.ask(1, init).error is Errors.COORDINATOR_LOAD_IN_PROGRESS:
        talk.side.settle(0.2)
    first = talk.ask("a producer id", init)
    second = talk.ask("another producer id", init)
    pid, other = first.producer_id, second.producer_id

    def send(what: str, sequence: int, *values: int, epoch: int = 0, producer: int = pid) -> None:
        made = batch(*values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
        talk.ask(what, produce(tp, made))

    send("sequence 0", 0, 10, 11)
    send("sequence 0 again", 0, 10, 11)
    send("a gap", 5, 12)
    send("sequence 2", 2, 12)
    send("part of an old batch", 1, 11)
    for sequence in range(3, 8):
        send(f"sequence {sequence}", sequence, 10 + sequence)
    send("older than the five remembered", 0, 10, 11)
    send("the oldest remembered", 3, 13)
    send("another producer from sequence 3", 3, 20, producer=other)
    send("another producer from sequence 0", 0, 20, producer=other)
    send("a new epoch from sequence 4", 4, 30, epoch=1)
    send("a new epoch from sequence 0", 0, 30, epoch=1)
    send("the old epoch", 8, 31)
    talk.ask("InitProducerId with an empty id", m.InitProducerIdRequest("", 60_000))
    talk.ask("InitProducerId, no transaction, timeout 0", m.InitProducerIdRequest(None, 0))

    def again(producer: int, epoch: int) -> m.InitProducerIdRequest:
        return m.InitProducerIdRequest(None, 60_000, producer, epoch)

    talk.ask("InitProducerId with a producer id alone", again(pid, -1))
    talk.ask("InitProducerId with an epoch alone", again(-1, 0))
    talk.ask("InitProducerId with both, no transaction", again(pid, 0))
    fresh = talk.side.ask(1, init).producer_id
    send("an unknown producer from sequence 7", 7, 40, producer=fresh)
    send("its sequence 8", 8, 41, producer=fresh)
    send("its sequence 8 again", 8, 41, producer=fresh)
    send("its newer epoch from sequence 0", 0, 42, producer=fresh, epoch=4)
    send("its epoch 3", 1, 43, producer=fresh, epoch=3)
    send("no sequence", -1, 44, producer=fresh, epoch=4)


def fetching(talk: Talk) -> None:
    tp = talk.create("fetched")
    talk.side.ask(1, produce(tp, batch(1, 2)))
    talk.side.ask(1, produce(tp, batch(3)))

    def fetch(
        offset: int, epoch: int = -1, last: int = -1, topic: str | None = None, **fields: Any
    ) -> m.FetchRequest:
        wanted = m.FetchPartition(
            fields.pop("to", tp), topic or talk.ids["fetched"], offset, -1, epoch, last,
            fields.pop("bytes", 1 << 20),
        )  # fmt: skip
        asked = {"replica_id": -1, "replica_epoch": -1, "session_epoch": -1} | fields
        return m.FetchRequest(
            asked["replica_id"], asked["replica_epoch"], 0, 1, 1 << 20, asked.get("isolation", 0),
            (wanted,),
            session_epoch=asked["session_epoch"], session_id=asked.get("session_id", 0),
        )  # fmt: skip

    talk.ask("from 0", fetch(0))
    talk.ask("from 2", fetch(2))
    talk.ask("from the middle of a batch", fetch(1))
    talk.ask("from the end", fetch(3))
    talk.ask("beyond the end", fetch(4))
    talk.ask("below the start", fetch(-2))
    talk.ask("at most one byte", fetch(0, bytes=1))
    talk.ask("from a follower", fetch(0), node=2)
    talk.ask("with the present epoch", fetch(0, epoch=0))
    talk.ask("with a newer epoch", fetch(0, epoch=5))
    talk.ask("with last fetched epoch 0", fetch(3, epoch=0, last=0))
    talk.ask("with last fetched epoch 0 beyond the end", fetch(9, epoch=0, last=0))
    talk.ask("with last fetched epoch 3", fetch(3, epoch=0, last=3))
    talk.ask("of an unknown topic id", fetch(0, topic=NOBODY))
    talk.ask("as a replica that is none", fetch(0, epoch=0, replica_id=9))
    talk.ask("of a session that is not there", fetch(0, session_id=77, session_epoch=3))
    talk.side.settle(1)  # the follower hears of the high watermark
    talk.ask("from a follower with a newer epoch", fetch(0, epoch=5), node=2)
    talk.ask("from a follower with the present epoch", fetch(0, epoch=0), node=2)
    away = TopicPartition("fetched", 9)
    talk.ask("of an unknown partition", fetch(0, to=away))
    talk.ask("read committed", fetch(0, isolation=1))
    talk.ask("an unknown topic id as a replica", fetch(0, topic=NOBODY, epoch=0, replica_id=9))
    talk.ask(
        "as replica 2 of an older incarnation", fetch(3, epoch=0, replica_id=2, replica_epoch=0)
    )
    talk.ask("as replica 9 without an epoch", fetch(0, replica_id=9))
    talk.ask("as replica 9 from a follower", fetch(0, replica_id=9), node=2)
    talk.ask("at most no bytes", fetch(0, bytes=0))
    talk.ask("with last fetched epoch 0 below the start", fetch(-1, epoch=0, last=0))
    talk.ask("with the final session epoch and a session", fetch(0, session_id=77))


def fetch_sessions(talk: Talk) -> None:
    tp = talk.create("in-session", (1, 2, 3), (1, 2, 3), (1, 2, 3))
    second, third = (TopicPartition("in-session", number) for number in (1, 2))
    talk.side.ask(1, produce(tp, batch(1, 2)))
    sessions: dict[str, int] = {"none": 0, "unknown": 77}

    def fetch(
        what: str, session: str, epoch: int, *wanted: tuple[TopicPartition, int],
        forgotten: tuple[TopicPartition, ...] = (), topic: str = "",
    ) -> None:  # fmt: skip
        """Ask in a session; a session that the answer opens is known by what was asked."""
        rows = tuple(
            m.FetchPartition(at, topic or talk.ids["in-session"], offset, -1, -1, -1, 1 << 20)
            for at, offset in wanted
        )
        request = m.FetchRequest(
            -1,
            -1,
            0,
            1,
            1 << 20,
            0,
            rows,
            sessions[session],
            epoch,
            "",
            tuple((talk.ids[at.topic], at) for at in forgotten),
        )
        answer = talk.ask(what, request)
        sessions[what] = answer.session_id

    def send(at: TopicPartition, value: int) -> None:
        talk.side.ask(1, produce(at, batch(value)))

    fetch("open", "none", 0, (tp, 0), (second, 0))
    fetch("nothing new", "open", 1, (tp, 2))
    send(second, 3)
    fetch("one partition has more", "open", 2)
    fetch("an epoch again", "open", 2)
    fetch("an epoch to come", "open", 9)
    fetch("its offset moves", "open", 3, (second, 1))
    fetch("a partition more", "open", 4, (third, 0))
    send(third, 4)
    fetch("a partition less", "open", 5, forgotten=(third,))
    send(tp, 5)
    fetch("an offset out of range", "open", 6, (tp, 99))
    fetch("the error again", "open", 7)
    fetch("an unknown partition", "open", 8, (TopicPartition("in-session", 9), 0))
    fetch("an unknown topic id", "open", 9, (TopicPartition("nowhere", 0), 0), topic=NOBODY)
    fetch("the same partition as before", "open", 10, (tp, 2))
    fetch("open again", "open", 0, (tp, 0))
    fetch("in the session before", "open", 11)
    fetch("in the new session", "open again", 1, (tp, 3))
    fetch("the last partition leaves", "open again", 2, forgotten=(tp,))
    fetch("in a session that was left", "open again", 3)
    fetch("open a third", "none", 0, (tp, 3))
    fetch("close it", "open a third", -1, (tp, 3))
    fetch("in the closed session", "open a third", 1)
    fetch("open with an unknown session", "unknown", 0, (tp, 3))
    fetch("open without a partition", "none", 0)
    fetch("no session, epoch 5", "none", 5, (tp, 3))


def fetch_sessions_by_name(talk: Talk) -> None:
    """Fetch 12 names topics, Fetch 13 has their ids: a session keeps to what opened it."""
    name = "spoken-of"
    tp = talk.create(name, (1, 2, 3), (1, 2, 3))
    second = TopicPartition(name, 1)
    talk.side.ask(1, produce(tp, batch(1, 2)))
    sessions: dict[str, int] = {"none": 0}
    known = talk.ids[name]

    def fetch(
        what: str, session: str, epoch: int, at: TopicPartition = tp, topic_id: str = "",
        forgotten: tuple[TopicPartition, ...] = (),
    ) -> None:  # fmt: skip
        wanted = (m.FetchPartition(at, topic_id, 0, -1, -1, -1, 1 << 20),)
        gone = tuple((topic_id, each) for each in forgotten)
        request = m.FetchRequest(
            -1, -1, 0, 1, 1 << 20, 0, wanted, sessions[session], epoch, "", gone
        )
        sessions[what] = talk.ask(what, request).session_id

    fetch("open by name", "none", 0)
    fetch("by id in it", "open by name", 1, topic_id=known)
    fetch("by id in it with an epoch to come", "open by name", 9, topic_id=known)
    fetch("by an unknown id in it", "open by name", 1, topic_id=NOBODY)
    fetch("by name in it", "open by name", 1, second)
    fetch("an unknown partition in it", "open by name", 2, TopicPartition(name, 9))
    fetch("an unknown topic in it", "open by name", 3, TopicPartition("nowhere", 0))
    fetch("a partition leaves", "open by name", 4, forgotten=(second,))
    fetch("open by id", "none", 0, topic_id=known)
    fetch("by name in that", "open by id", 1)
    fetch("an unknown topic in that", "open by id", 1, TopicPartition("nowhere", 0))
    fetch("by id in that", "open by id", 1, topic_id=known)
    fetch("open by name instead of that", "open by id", 0)
    fetch("by id in the new one", "open by name instead of that", 1, topic_id=known)
    fetch("by name in the new one", "open by name instead of that", 1)
    fetch("close it by id", "open by name instead of that", -1, topic_id=known)
    fetch("by name in the closed one", "open by name instead of that", 2)
    fetch("without a session, by name", "none", -1)
    fetch("without a session, an unknown topic", "none", -1, TopicPartition("nowhere", 0))


def offsets_and_epochs(talk: Talk) -> None:
    tp = talk.create("looked-up")
    away = TopicPartition("looked-up", 9)
    talk.side.ask(1, produce(tp, batch(1, 2, 3)))

    def at(timestamp: int, epoch: int = -1, to: TopicPartition = tp, replica: int = -1) -> Any:
        wanted = (m.ListOffsetsPartition(to, epoch, timestamp),)
        return m.ListOffsetsRequest(replica, 0, wanted)

    talk.ask("ListOffsets latest", at(-1))
    talk.ask("ListOffsets earliest", at(-2))
    talk.ask("ListOffsets by time 0", at(0))
    talk.ask("ListOffsets by a time to come", at(1 << 60))
    talk.ask("ListOffsets max timestamp", at(-3))
    talk.ask("ListOffsets earliest local", at(-4))
    talk.ask("ListOffsets with a newer epoch", at(-1, epoch=4))
    talk.ask("ListOffsets with the present epoch", at(-1, epoch=0))
    talk.ask("ListOffsets of a follower", at(-1), node=2)
    talk.ask("ListOffsets of an unknown partition", at(-1, to=away))
    talk.ask("ListOffsets of an unknown topic", at(-1, to=TopicPartition("nowhere", 0)))
    talk.ask("ListOffsets as debugging replica -2", at(-1, replica=-2), node=2)
    for timestamp in (-2, -3, -4, 0, 1 << 60):
        talk.ask(f"ListOffsets {timestamp} as debugging replica", at(timestamp, replica=-2), node=2)
    talk.ask("ListOffsets as debugging replica, newer epoch", at(-1, epoch=4, replica=-2), node=2)
    talk.ask("ListOffsets as replica -3", at(-1, replica=-3))
    talk.ask("ListOffsets as replica -3 of a follower", at(-1, replica=-3), node=2)
    talk.ask("ListOffsets as replica 2", at(-1, replica=2))
    talk.ask("ListOffsets as replica 3 of a follower", at(-1, replica=3), node=2)
    for timestamp in (-5, -6, -7, -8):
        talk.ask(f"ListOffsets by time {timestamp}", at(timestamp))
        talk.ask(f"ListOffsets by time {timestamp} of a follower", at(timestamp), node=2)
    one = m.ListOffsetsPartition(tp, -1, -1)
    talk.ask("ListOffsets of one partition twice", m.ListOffsetsRequest(-1, 0, (one, one)))
    talk.ask("ListOffsets read committed", m.ListOffsetsRequest(-1, 1, (one,)))
    empty = talk.create("nothing-in-it")
    for timestamp in (-1, -2, -3, -4, -5, 0):
        talk.ask(f"ListOffsets by time {timestamp} of an empty log", at(timestamp, to=empty))

    def ends(epoch: int, current: int = -1, to: TopicPartition = tp, replica: int = -1) -> Any:
        wanted = (m.OffsetForLeaderEpochPartition(to, current, epoch),)
        return m.OffsetsForLeaderEpochRequest(replica, wanted)

    talk.ask("epoch 0 ends", ends(0))
    talk.ask("epoch 3 ends", ends(3))
    talk.ask("epoch -1 ends", ends(-1))
    talk.ask("epoch 0 ends, current epoch 0", ends(0, current=0))
    talk.ask("epoch 0 ends, current epoch 4", ends(0, current=4))
    talk.ask("epoch 0 ends at a follower", ends(0), node=2)
    talk.ask("epoch 0 of an unknown partition ends", ends(0, to=away))
    talk.ask("epoch 0 ends, asked by replica 2", ends(0, replica=2, current=0))
    talk.ask("epoch 0 ends, asked by replica -2 of a follower", ends(0, replica=-2), node=2)
    talk.ask("epoch 0 of an empty log ends", ends(0, to=empty))
    unknown = TopicPartition("nowhere", 0)
    talk.ask("epoch 0 of an unknown topic ends", ends(0, to=unknown))


def deleting_records(talk: Talk) -> None:
    tp = talk.create("trimmed")
    talk.side.ask(1, produce(tp, batch(1, 2, 3)))
    away = TopicPartition("trimmed", 9)

    def delete(offset: int, to: TopicPartition = tp) -> m.DeleteRecordsRequest:
        return m.DeleteRecordsRequest(((to, offset),), 5000)

    talk.ask("to 2", delete(2))
    talk.ask("to 1, below the start", delete(1))
    talk.ask("to 9, above the high watermark", delete(9))
    talk.ask("to -2", delete(-2))
    talk.ask("at a follower", delete(2), node=2)
    talk.ask("of an unknown partition", delete(2, away))
    talk.ask("of an unknown topic", delete(2, TopicPartition("nowhere", 0)))
    talk.ask("to the high watermark", delete(-1))
    wanted = (m.ListOffsetsPartition(tp, -1, -2),)
    talk.ask("earliest afterwards", m.ListOffsetsRequest(-1, 0, wanted))
    second = talk.create("trimmed-too", (1, 2, 3), (2, 3, 1))
    talk.side.ask(1, produce(second, batch(1, 2)))
    three = ((second, 1), (TopicPartition("trimmed-too", 1), 0), (away, 0))
    talk.ask("of three partitions", m.DeleteRecordsRequest(three, 5000))
    talk.ask("to 0 in an empty log", delete(0, talk.create("trimmed-empty")))
    talk.ask("of a compacted topic", delete(0, talk.create("packed", cleanup_policy="compact")))
    node = talk.coordinator("trimmers")
    offsets = TopicPartition("__consumer_offsets", 0)
    talk.ask("of the offsets topic", delete(0, offsets), node)
