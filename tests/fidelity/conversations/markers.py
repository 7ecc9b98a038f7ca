"""WriteTxnMarkers: what a leader answers a transaction coordinator, or who forges its requests.

Not asked: a marker that names a partition twice. Kafka never answers it, as it waits for two
appends and makes one (KafkaApis.handleWriteTxnMarkersRequest).
"""

from __future__ import annotations

from kafkasim.model import messages as m
from kafkasim.model.errors import Errors
from kafkasim.model.records import TopicPartition
from tests.fidelity.conversations.talk import Talk, batch
from tests.fidelity.conversations.transactions import Transactions

NOWHERE = TopicPartition("nowhere", 0)
STRANGER, ANOTHER = 7_000_001, 7_000_002
"""Producer ids that nobody was given."""


def marker(
    producer: tuple[int, int],
    *tps: TopicPartition,
    committed: bool = False,
    coordinator_epoch: int = 0,
) -> m.WritableTxnMarker:
    return m.WritableTxnMarker(*producer, committed, tps, coordinator_epoch)


def markers(talk: Talk) -> None:
    first = talk.create("marked", (1, 2, 3), (1, 3, 2), (2, 3, 1))
    second, third = TopicPartition("marked", 1), TopicPartition("marked", 2)
    for name, producer in (("stranger", STRANGER), ("another", ANOTHER)):
        talk.names.producers[producer] = name

    def write(what: str, *written: m.WritableTxnMarker, node: int = 1) -> None:
        talk.ask(what, m.WriteTxnMarkersRequest(written), node)

    def look(what: str) -> None:
        talk.ask(what, m.DescribeProducersRequest((first, second)))

    stranger = (STRANGER, 3)
    write("unknown topic", marker(stranger, NOWHERE))
    write("unknown partition", marker(stranger, TopicPartition("marked", 9)))
    write("no partition", marker(stranger))
    write("a follower", marker(stranger, third))
    write("no replica of offsets that are not there", marker(stranger, third), node=3)
    write("of an unknown producer", marker(stranger, first, coordinator_epoch=5))
    look("it is known now")
    write("again", marker(stranger, first, coordinator_epoch=5))
    write("an older epoch", marker((STRANGER, 2), first, coordinator_epoch=5))
    write("an older coordinator", marker(stranger, first, coordinator_epoch=4))
    write("both older", marker((STRANGER, 2), first, coordinator_epoch=4))
    write("an older coordinator, another partition", marker(stranger, second, coordinator_epoch=4))
    write("a newer epoch", marker((STRANGER, 4), first, coordinator_epoch=5))
    write("a newer coordinator", marker((STRANGER, 4), first, coordinator_epoch=6))
    write("the highest epoch", marker((STRANGER, 32767), second, coordinator_epoch=6))
    write("a negative epoch", marker((STRANGER, -1), first, coordinator_epoch=6))
    write("a negative producer id", marker((-1, 0), first))
    look("after these")
    other = (ANOTHER, 0)
    write("two producers", marker(other, first), marker((STRANGER, 5), first, coordinator_epoch=6))
    write("two, one partition unknown", marker(other, first, NOWHERE), marker(other, second))
    write("two, one of an older epoch", marker(other, first), marker((STRANGER, 1), first))
    write("two, one without a partition", marker(other, first), marker((STRANGER, 5)))
    write("one producer twice", marker(other, first), marker(other, first, committed=True))
    write("one producer twice, the second older", marker((ANOTHER, 2), first), marker(other, first))
    look("after all")
    _an_open_transaction(talk, first, second)


def _an_open_transaction(talk: Talk, first: TopicPartition, second: TopicPartition) -> None:
    """Forge markers for a transaction that its coordinator has open."""
    t = Transactions(talk, 0, "forged-payments")
    while talk.side.ask(t.node, m.InitProducerIdRequest(None, 0)).error is not Errors.NONE:
        talk.side.settle(0.2)  # the broker waits for its first block of ids
    given = t.init("init")
    me = (given.producer_id, given.producer_epoch)
    t.calm("add", t.add(me, first, second))
    ask = talk.ask
    ask("send", t.send(me, first, 0))
    ask("send to the second", t.send(me, second, 0))

    def write(what: str, *written: m.WritableTxnMarker) -> None:
        ask(what, m.WriteTxnMarkersRequest(written))

    def stable(what: str, tp: TopicPartition) -> None:
        latest = (m.ListOffsetsPartition(tp, -1, -1),)
        ask(what, m.ListOffsetsRequest(-1, 1, latest))

    stable("last stable offset while it is open", second)
    write("of an older epoch", marker((me[0], me[1] - 1), first))
    write("commits it", marker(me, second, committed=True, coordinator_epoch=-1))
    stable("last stable offset after that", second)
    write("aborts the first", marker((me[0], me[1] + 1), first))
    ask("send after that", t.send(me, first, 1))
    made = batch(9, producer_id=me[0], producer_epoch=me[1], base_sequence=1, transactional=True)
    ask("send as nobody", m.ProduceRequest(-1, 5000, (m.ProducePartition(second, made),), "x"))
    ask("producers", m.DescribeProducersRequest((first, second)))
