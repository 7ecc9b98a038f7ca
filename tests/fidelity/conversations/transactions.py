"""The requests of transactions, of clients below transaction.version 2 and of it."""

from __future__ import annotations

from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.errors import Errors
from kafkasim.model.records import TopicPartition
from tests.fidelity.conversations.talk import Talk, batch

GONE = TopicPartition("transactional", 7)
BUSY = (
    Errors.CONCURRENT_TRANSACTIONS,
    Errors.COORDINATOR_LOAD_IN_PROGRESS,
    Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_COORDINATOR,
)


class Transactions:
    """Requests about one transactional id, asked of its coordinator."""

    def __init__(self, talk: Talk, version: int, transactional_id: str) -> None:
        self.talk = talk
        self.version = version
        self.id = transactional_id
        self.node = self._coordinator()

    def _coordinator(self) -> int:
        side = self.talk.side
        for _ in range(60):
            found = side.ask(1, m.FindCoordinatorRequest(self.id, 1))
            if found.error is Errors.NONE:
                known = side.ask(found.node_id, m.DescribeTransactionsRequest((self.id,)))
                if known.transactions[0].error not in BUSY:
                    return int(found.node_id)
            side.settle(0.5)
        raise AssertionError(f"no coordinator for {self.id}")

    def calm(self, what: str, message: Any) -> Any:
        """Ask until the coordinator is through with what it did before; write that down."""
        for _ in range(60):
            answer = self.talk.side.ask(self.node, message)
            if _first_error(answer) not in BUSY:
                break
            self.talk.side.settle(0.2)
        # A served request may be repeated: its answer is the same.
        return self.talk.ask(what, message, self.node)

    def init(self, what: str, *expected: int, timeout_ms: int = 60_000) -> Any:
        """Initialize a producer once the coordinator is through with what it did before."""
        request = m.InitProducerIdRequest(self.id, timeout_ms, *expected)
        for _ in range(60):
            described = self.talk.side.ask(self.node, m.DescribeTransactionsRequest((self.id,)))
            if not described.transactions[0].state.startswith("Prepare"):
                break
            self.talk.side.settle(0.2)
        return self.talk.ask(what, request, self.node)

    def add(self, producer: tuple[int, int], *tps: TopicPartition, **fields: Any) -> Any:
        transaction = m.AddPartitionsToTxnTransaction(
            fields.get("id", self.id), *producer, fields.get("verify_only", False), tps
        )
        return m.AddPartitionsToTxnRequest((transaction,), self.version)

    def end(self, producer: tuple[int, int], committed: bool, name: str | None = None) -> Any:
        name = self.id if name is None else name
        return m.EndTxnRequest(name, *producer, committed, self.version)

    def send(
        self, producer: tuple[int, int], tp: TopicPartition, sequence: int, **fields: Any
    ) -> Any:
        made = batch(
            100 + sequence, producer_id=producer[0], producer_epoch=producer[1],
            base_sequence=sequence, transactional=fields.get("transactional", True),
        )  # fmt: skip
        name = fields.get("id", self.id)
        return m.ProduceRequest(-1, 5000, (m.ProducePartition(tp, made),), name, self.version)

    def commit(self, producer: tuple[int, int], group: str, tp: TopicPartition, **f: Any) -> Any:
        return m.TxnOffsetCommitRequest(
            f.get("id", self.id), group, *producer, f.get("generation", -1), f.get("member", ""),
            None, ((tp, 5, 0, f.get("metadata", "")),), self.version,
        )  # fmt: skip


def _first_error(answer: Any) -> Errors:
    if isinstance(answer, m.AddPartitionsToTxnResponse):
        return answer.results[0][1][0][1]
    return Errors(answer.error)


def transactions(talk: Talk) -> None:
    """Clients of KIP-98: partitions are added by request, an epoch lasts for many transactions."""
    first = talk.create("transactional", (1, 2, 3), (2, 3, 1))
    second, gone = TopicPartition("transactional", 1), TopicPartition("transactional", 7)
    t = Transactions(talk, 0, "payments")
    node, elsewhere = t.node, t.node % 3 + 1
    ask = talk.ask
    ask("FindCoordinator of a transactional id", m.FindCoordinatorRequest("payments", 1))
    ask("FindCoordinator of an empty transactional id", m.FindCoordinatorRequest("", 1))
    # Nobody has initialized the id.
    nobody = (1, 0)
    ask("add to an unknown id", t.add(nobody, first), node)
    ask("end of an unknown id", t.end(nobody, True), node)
    ask("offsets of an unknown id", m.AddOffsetsToTxnRequest("payments", 1, 0, "buyers"), node)
    ask("describe an unknown id", m.DescribeTransactionsRequest(("payments",)), node)
    ask("describe an empty id", m.DescribeTransactionsRequest(("",)), node)
    ask("describe elsewhere", m.DescribeTransactionsRequest(("payments",)), elsewhere)
    ask("list nothing", m.ListTransactionsRequest(), node)
    ask("init elsewhere", m.InitProducerIdRequest("payments", 60_000), elsewhere)
    ask("add elsewhere", t.add(nobody, first), elsewhere)
    ask("end elsewhere", t.end(nobody, True), elsewhere)
    ask("add with an empty id", t.add(nobody, first, id=""), node)
    ask("end with an empty id", t.end(nobody, True, ""), node)
    ask("init with a timeout of 0", m.InitProducerIdRequest("payments", 0), node)
    ask("init with a negative timeout", m.InitProducerIdRequest("payments", -1), node)
    ask("init with a timeout of a day", m.InitProducerIdRequest("payments", 86_400_000), node)
    ask("init with a producer id alone", m.InitProducerIdRequest("payments", 60_000, 5, -1), node)
    while talk.side.ask(node, m.InitProducerIdRequest(None, 0)).error is not Errors.NONE:
        talk.side.settle(0.2)  # the broker waits for its first block of ids
    me = t.init("init")
    old = (me.producer_id, me.producer_epoch)
    again = t.init("init again")
    me = (again.producer_id, again.producer_epoch)
    raised = t.init("init with its own epoch", *me)
    t.init("init with its own epoch again", *me)
    me = (raised.producer_id, raised.producer_epoch)
    t.init("init with an older epoch", *old)
    t.init("init with a newer epoch", me[0], me[1] + 5)
    t.init("init with another producer id", me[0] + 7, me[1])
    ask("describe an empty state", m.DescribeTransactionsRequest(("payments", "nobody")), node)
    ask("commit before a beginning", t.end(me, True), node)
    ask("abort before a beginning", t.end(me, False), node)
    ask("produce outside a transaction", t.send(me, first, 0))
    ask("produce with another id", t.send(me, first, 0, id="nobody"))
    ask("produce in a transaction without an id", t.send(me, first, 0, id=None))
    ask("produce with an id and no transaction", t.send(me, second, 0, transactional=False), 2)
    ask("add with an older epoch", t.add(old, first), node)
    ask("add with a newer epoch", t.add((me[0], me[1] + 1), first), node)
    ask("add with another producer id", t.add((me[0] + 1, me[1]), first), node)
    ask("add an unknown partition", t.add(me, first, gone), node)
    ask("add no partition", t.add(me), node)
    _an_open_transaction(t, me, old, first, second)
    _its_offsets(t, me, old, first)
    _its_end(t, me, old, first)
    _fencing(t, first)


def _an_open_transaction(
    t: Transactions, me: tuple[int, int], old: tuple[int, int], first: Any, second: Any
) -> None:
    ask, node = t.talk.ask, t.node
    t.calm("add", t.add(me, first))
    ask("describe an open transaction", m.DescribeTransactionsRequest(("payments",)), node)
    ask("produce", t.send(me, first, 0))
    ask("produce again", t.send(me, first, 0))
    ask("produce to a partition that is not in it", t.send(me, second, 1), 2)
    ask("produce with an older epoch", t.send(old, first, 1))
    ask("produce the next", t.send(me, first, 1))
    ask("producers", m.DescribeProducersRequest((first,)))
    ask("producers elsewhere", m.DescribeProducersRequest((first,)), 2)
    nowhere = TopicPartition("nowhere", 0)
    ask("producers of an unknown partition", m.DescribeProducersRequest((nowhere,)))
    ask("list ongoing", m.ListTransactionsRequest(("Ongoing",)), node)
    ask("list complete", m.ListTransactionsRequest(("CompleteCommit",)), node)
    ask("list an unknown state", m.ListTransactionsRequest(("Sleeping", "Ongoing")), node)
    ask("list by a state in small letters", m.ListTransactionsRequest(("ongoing",)), node)
    ask("list another producer", m.ListTransactionsRequest((), (me[0] + 1,)), node)
    ask("list by producer", m.ListTransactionsRequest((), (me[0],)), node)
    ask("list what is old", m.ListTransactionsRequest((), (), 3_600_000), node)


def _its_offsets(t: Transactions, me: tuple[int, int], old: tuple[int, int], first: Any) -> None:
    talk, node = t.talk, t.node
    ask, group = talk.ask, talk.coordinator("buyers")
    ask("offsets before their group is added", t.commit(me, "buyers", first), group)
    ask("add offsets with an older epoch", m.AddOffsetsToTxnRequest("payments", *old, "g"), node)
    t.calm("add offsets", m.AddOffsetsToTxnRequest("payments", *me, "buyers"))
    ask("offsets elsewhere", t.commit(me, "buyers", first), group % 3 + 1)
    ask("offsets with an empty group", t.commit(me, "", first), group)
    ask("offsets of an unknown partition", t.commit(me, "buyers", GONE), group)
    ask("offsets with a generation", t.commit(me, "buyers", first, generation=3), group)
    ask("offsets with a member", t.commit(me, "buyers", first, member="x"), group)
    ask("offsets with long metadata", t.commit(me, "buyers", first, metadata="x" * 5000), group)
    ask("offsets with an older epoch", t.commit(old, "buyers", first), group)
    ask("offsets", t.commit(me, "buyers", first), group)
    ask("offsets again", t.commit(me, "buyers", first), group)
    fetch = m.OffsetFetchRequest("buyers", (first,), require_stable=False)
    ask("fetch pending offsets", fetch, group)
    stable = m.OffsetFetchRequest("buyers", (first,), require_stable=True)
    ask("fetch pending offsets, stable", stable, group)
    ask("commit over pending offsets", _plain("buyers", first), group)
    ask("fetch both, stable", stable, group)


def _plain(group: str, tp: TopicPartition) -> m.OffsetCommitRequest:
    return m.OffsetCommitRequest(group, -1, "", None, ((tp, 9, 0, ""),))


def _its_end(t: Transactions, me: tuple[int, int], old: tuple[int, int], first: Any) -> None:
    talk, node = t.talk, t.node
    ask, group = talk.ask, talk.coordinator("buyers")
    ask("end with an older epoch", t.end(old, True), node)
    ask("end with a newer epoch", t.end((me[0], me[1] + 1), True), node)
    ask("end with another producer id", t.end((me[0] + 1, me[1]), True), node)
    marker = m.WritableTxnMarker(me[0], old[1], True, (first,), 0)
    ask("a marker of an older epoch", m.WriteTxnMarkersRequest((marker,)))
    ask("a marker elsewhere", m.WriteTxnMarkersRequest((marker,)), 2)
    marker = m.WritableTxnMarker(me[0], me[1], True, (TopicPartition("nowhere", 0),), 0)
    ask("a marker of an unknown partition", m.WriteTxnMarkersRequest((marker,)))
    ask("no marker", m.WriteTxnMarkersRequest(()))
    ask("end", t.end(me, True), node)
    t.calm("end again", t.end(me, True))
    ask("end in the other direction", t.end(me, False), node)
    ask("describe a complete transaction", m.DescribeTransactionsRequest(("payments",)), node)
    ask("produce after the end", t.send(me, first, 2))
    ask("producers after the end", m.DescribeProducersRequest((first,)))
    fetch = m.OffsetFetchRequest("buyers", (first,), require_stable=True)
    ask("fetch after the end, stable", fetch, group)
    marker = m.WritableTxnMarker(me[0], me[1], False, (first,), -1)
    ask("a marker of an older coordinator", m.WriteTxnMarkersRequest((marker,)))
    t.calm("add to the next", t.add(me, first))
    ask("produce to the next", t.send(me, first, 2))
    marker = m.WritableTxnMarker(me[0], me[1], False, (first,), 9)
    ask("an operator's abort", m.WriteTxnMarkersRequest((marker,)))
    ask("producers after that", m.DescribeProducersRequest((first,)))
    ask("end of what the operator aborted", t.end(me, True), node)


def _fencing(t: Transactions, first: Any) -> None:
    """Begin under a fresh id, and let another producer take it over."""
    other = Transactions(t.talk, t.version, "refunds")
    ask, node = t.talk.ask, other.node
    mine = other.init("init another id")
    mine = (mine.producer_id, mine.producer_epoch)
    other.calm("begin under another id", other.add(mine, first))
    ask("produce under another id", other.send(mine, first, 0))
    ask("init while a transaction is open", m.InitProducerIdRequest("refunds", 60_000), node)
    newer = other.init("init after the fence")
    ask("add as a zombie", other.add(mine, first), node)
    ask("end as a zombie", other.end(mine, True), node)
    ask("produce as a zombie", other.send(mine, first, 1))
    newer = (newer.producer_id, newer.producer_epoch)
    other.calm("add as the newer", other.add(newer, first))
    ask("produce as the newer", other.send(newer, first, 0))
    ask("producers of a zombie", m.DescribeProducersRequest((first,)))
    ask("abort as the newer", other.end(newer, False), node)
    other.calm("abort as the newer again", other.end(newer, False))
    ask("commit what was aborted", other.end(newer, True), node)


def transactions_of_two(talk: Talk) -> None:
    """Clients of transaction.version 2 (KIP-890): leaders add partitions, each end bumps."""
    first = talk.create("implicit", (1, 2, 3), (2, 3, 1))
    t = Transactions(talk, 2, "orders-out")
    ask, node = talk.ask, t.node
    while talk.side.ask(node, m.InitProducerIdRequest(None, 0)).error is not Errors.NONE:
        talk.side.settle(0.2)
    t.init("init")
    if talk.side.zookeeper:
        return  # brokers of ZooKeeper mode have no such feature
    me = t.init("init again")
    me = (me.producer_id, me.producer_epoch)
    old = (me[0], me[1] - 1)
    ask("commit of nothing", t.end(me, True), node)
    ask("commit of nothing with the older epoch", t.end(old, True), node)
    ask("abort of nothing with the older epoch", t.end(old, False), node)
    verify = t.add(me, first, verify_only=True)
    ask("verify before a beginning", verify, node)
    ask("produce with an older epoch", t.send(old, first, 0))
    ask("produce with another producer id", t.send((me[0] + 5, me[1]), first, 0))
    ask("produce", t.send(me, first, 0))
    ask("describe", m.DescribeTransactionsRequest(("orders-out",)), node)
    ask("verify", verify, node)
    second = TopicPartition("implicit", 1)
    ask("verify another partition", t.add(me, first, second, verify_only=True), node)
    ask("verify an older epoch", t.add(old, first, verify_only=True), node)
    ask("verify another producer id", t.add((me[0] + 1, 0), first, verify_only=True), node)
    ask("verify elsewhere", verify, node % 3 + 1)
    ask("verify an unknown partition", t.add(me, GONE, verify_only=True), node)
    group = talk.coordinator("takers")
    ask("offsets with an older epoch", t.commit(old, "takers", first), group)
    ask("offsets", t.commit(me, "takers", first), group)
    ask("describe with offsets", m.DescribeTransactionsRequest(("orders-out",)), node)
    stable = m.OffsetFetchRequest("takers", (first,), require_stable=True)
    ask("fetch pending offsets, stable", stable, group)
    ask("end with an older epoch", t.end(old, True), node)
    ended = ask("end", t.end(me, True), node)
    t.calm("end again", t.end(me, True))
    ask("end again in the other direction", t.end(me, False), node)
    ask("fetch after the end, stable", stable, group)
    ask("producers", m.DescribeProducersRequest((first,)))
    now = (ended.producer_id, ended.producer_epoch)
    ask("commit of nothing after a commit", t.end(now, True), node)
    ask("produce with the epoch before", t.send(me, first, 1))
    ask("produce in the next", t.send(now, first, 0))
    ask("abort", t.end(now, False), node)
    t.calm("abort again", t.end(now, False))
    ask("commit what was aborted", t.end(now, True), node)
    nothing = ask("abort of nothing", t.end((now[0], now[1] + 1), False), node)
    t.calm("abort of nothing again", t.end((now[0], now[1] + 1), False))
    last = (nothing.producer_id, nothing.producer_epoch)
    ask("produce at last", t.send(last, first, 0))
    ask("init while a transaction is open", m.InitProducerIdRequest("orders-out", 60_000), node)
    t.init("init after the fence")
    ask("end as a zombie", t.end(last, True), node)
    ask("produce as a zombie", t.send(last, first, 1))
    ask("list", m.ListTransactionsRequest((), (me[0],)), node)
