"""The privileges that every request needs, one at a time (KafkaApis, ControllerApis).

alice gets each operation on a topic, a group, a transactional id or the cluster in turn, and sends
every request about it. What she needs otherwise she has. A request that is allowed is then refused
for another reason where it would change something for the next one.
"""

from __future__ import annotations

from kafkasim.model import messages as m
from kafkasim.model.messages.clients.acls import (
    ALL,
    CLUSTER,
    CLUSTER_NAME,
    GROUP,
    LITERAL,
    OPERATIONS,
    PREFIXED,
    TOPIC,
    TRANSACTIONAL_ID,
)
from kafkasim.model.records import TopicPartition
from tests.fidelity.conversations.granting import await_ids, entry, put
from tests.fidelity.conversations.talk import Talk, batch, produce
from tests.fidelity.conversations.transactions import Transactions

Asked = dict[str, tuple[m.Message, int]]
"""What is asked -> the request, and the broker that is asked."""

PRODUCER = (7, 0)
"""A producer id that no transaction has."""

MEMBER = "AAAAAAAAAAAAAAAAAAAAQg"


class Resources:
    """A topic, a group and a transactional id, and every request about them.

    ``leader`` leads the topic, the others coordinate the group and the transactions.
    """

    def __init__(self, talk: Talk, name: str, *, exists: bool = True) -> None:
        self.name = name
        self.tp = talk.create(name) if exists else TopicPartition(name, 0)
        self.id = talk.ids.get(name, "")
        self.group = talk.coordinator(name)
        self.transactions = Transactions(talk, 0, name)
        self.protocols = (("range", m.Subscription((name,))),)

    def of_topic(self) -> Asked:
        """Return the requests whose answers depend on the rights on a topic."""
        tp, name, group = self.tp, self.name, self.group
        fetched = m.FetchPartition(tp, self.id, 0, -1, -1, -1, 1 << 20)
        wanted = m.CreatableTopic(name, 1, 1, (), ())
        config = m.AlterableConfig(TOPIC, name, (("retention.ms", "-2"),))
        return {
            "Produce": (produce(tp, batch(1)), 1),
            "Fetch": (m.FetchRequest(-1, -1, 0, 1, 1 << 20, 0, (fetched,)), 1),
            "ListOffsets": (m.ListOffsetsRequest(-1, 0, (m.ListOffsetsPartition(tp, -1, -2),)), 1),
            "OffsetForLeaderEpoch": (
                m.OffsetsForLeaderEpochRequest(-2, (m.OffsetForLeaderEpochPartition(tp, -1, 9),)),
                1,
            ),
            "Metadata": (m.MetadataRequest((name,), False), 1),
            "DeleteRecords": (m.DeleteRecordsRequest(((tp, 99),), 5000), 1),
            "DescribeProducers": (m.DescribeProducersRequest((tp,)), 1),
            "OffsetCommit": (self._commit(), group),
            "OffsetFetch": (m.OffsetFetchRequest(name, (tp,)), group),
            "OffsetDelete": (m.OffsetDeleteRequest(name, (tp,)), group),
            "TxnOffsetCommit": (self._commit_in_transaction(), group),
            "AddPartitionsToTxn": (self._add(), self.transactions.node),
            "ConsumerGroupHeartbeat": (self._beat(), group),
            "CreateTopics": (m.CreateTopicsRequest((wanted,), 10_000), 1),
            "DeleteTopics": (m.DeleteTopicsRequest(((f"{name}-gone", ""),), 10_000), 1),
            "CreatePartitions": (
                m.CreatePartitionsRequest((m.CreatePartitionsTopic(name, 1),)),
                1,
            ),
            "IncrementalAlterConfigs": (m.IncrementalAlterConfigsRequest((config,)), 1),
            "InitProducerId without an id": (m.InitProducerIdRequest(None, 60_000), 1),
            "Produce, acks=0": (produce(tp, batch(1), acks=0), 1),
        }

    def of_group(self) -> Asked:
        """Return the requests whose answers depend on the rights on a group."""
        name = self.name
        join = m.JoinGroupRequest(
            name, 10_000, 30_000, "m", None, "consumer", self.protocols, "fidelity"
        )
        sync = m.SyncGroupRequest(name, 1, "m", None, "consumer", "range", ())
        config = m.AlterableConfig(GROUP, name, (("consumer.session.timeout.ms", "1"),))
        adding = m.AddOffsetsToTxnRequest(name, *PRODUCER, name)
        asked: dict[str, m.Message] = {
            "FindCoordinator": m.FindCoordinatorRequest(name),
            "JoinGroup": join,
            "SyncGroup": sync,
            "Heartbeat": m.HeartbeatRequest(name, 1, "m", None),
            "LeaveGroup": m.LeaveGroupRequest(name, (("m", None, "done"),)),
            "OffsetCommit": self._commit(),
            "OffsetFetch": m.OffsetFetchRequest(name, (self.tp,)),
            "OffsetDelete": m.OffsetDeleteRequest(name, (self.tp,)),
            "TxnOffsetCommit": self._commit_in_transaction(),
            "DescribeGroups": m.DescribeGroupsRequest((name,)),
            "ListGroups": m.ListGroupsRequest((), ()),
            "DeleteGroups": m.DeleteGroupsRequest((f"{name}-gone",)),
            "ConsumerGroupHeartbeat": self._beat(),
            "ConsumerGroupDescribe": m.ConsumerGroupDescribeRequest((name,)),
            "IncrementalAlterConfigs": m.IncrementalAlterConfigsRequest((config,)),
        }
        with_group: Asked = {what: (message, self.group) for what, message in asked.items()}
        return with_group | {"AddOffsetsToTxn": (adding, self.transactions.node)}

    def of_transactional_id(self) -> Asked:
        """Return the requests whose answers depend on the rights on a transactional id."""
        name, node = self.name, self.transactions.node
        sent = m.ProduceRequest(
            -1, 5000, self.transactions.send(PRODUCER, self.tp, 0).partitions, name, 0
        )
        return {
            "FindCoordinator": (m.FindCoordinatorRequest(name, 1), 1),
            "InitProducerId": (m.InitProducerIdRequest(name, -1), node),
            "AddPartitionsToTxn": (self._add(), node),
            "AddOffsetsToTxn": (m.AddOffsetsToTxnRequest(name, *PRODUCER, name), node),
            "EndTxn": (self.transactions.end(PRODUCER, True), node),
            "TxnOffsetCommit": (self._commit_in_transaction(), self.group),
            "Produce": (sent, 1),
            "DescribeTransactions": (m.DescribeTransactionsRequest((name,)), node),
            "ListTransactions": (m.ListTransactionsRequest(), node),
        }

    def of_cluster(self) -> Asked:
        """Return the requests whose answers depend on the rights on the cluster."""
        tp, name = self.tp, self.name
        copied = m.FetchPartition(tp, self.id, 0, 0, 0, -1, 1 << 20)
        moved = m.ReassignablePartition(TopicPartition(f"{name}-gone", 0), None)

        def change(value: str) -> m.IncrementalAlterConfigsRequest:
            config = m.AlterableConfig("broker", "1", (("log.retention.ms", value),))
            return m.IncrementalAlterConfigsRequest((config,))

        wrong = m.ClientQuotaAlteration((("user", "eve"),), (("no.such.key", 1.0),))
        verified = self.transactions.add(PRODUCER, tp, verify_only=True)
        asked: dict[str, m.Message] = {
            "CreateTopics": m.CreateTopicsRequest((m.CreatableTopic(name, 1, 1, (), ()),), 10_000),
            "Fetch of a follower": m.FetchRequest(2, -1, 0, 1, 1 << 20, 0, (copied,)),
            "OffsetForLeaderEpoch": m.OffsetsForLeaderEpochRequest(
                -2, (m.OffsetForLeaderEpochPartition(tp, -1, 9),)
            ),
            "FindCoordinator of a share partition": m.FindCoordinatorRequest("g:x:0", 2),
            "InitProducerId without an id": m.InitProducerIdRequest(None, 60_000),
            "WriteTxnMarkers": m.WriteTxnMarkersRequest(
                (m.WritableTxnMarker(*PRODUCER, True, (TopicPartition(name, 9),), 0),)
            ),
            "AddPartitionsToTxn of a broker": verified,
            "CreateAcls": m.CreateAclsRequest((entry("any", "a"), entry("any", "b"))),
            "DeleteAcls": m.DeleteAclsRequest((m.AclFilter(principal="User:eve"),)),
            "DescribeAcls": m.DescribeAclsRequest(m.AclFilter(principal="User:eve")),
            "AlterClientQuotas": m.AlterClientQuotasRequest((wrong,)),
            "DescribeClientQuotas": m.DescribeClientQuotasRequest((), False),
            "ElectLeaders": m.ElectLeadersRequest(0, (TopicPartition(name, 9),)),
            "AlterPartitionReassignments": m.AlterPartitionReassignmentsRequest((moved,)),
            "ListPartitionReassignments": m.ListPartitionReassignmentsRequest(None),
            "UnregisterBroker": m.UnregisterBrokerRequest(99),
            "UpdateFeatures": m.UpdateFeaturesRequest((("no.such.feature", 1),)),
            "DescribeQuorum": m.DescribeQuorumRequest(),
            "IncrementalAlterConfigs": change("-1"),
            "IncrementalAlterConfigs, wrong": change("x"),
        }
        groups: Asked = {"ListGroups": (m.ListGroupsRequest((), ()), self.group)}
        return {what: (message, 1) for what, message in asked.items()} | groups

    def _commit(self) -> m.OffsetCommitRequest:
        return m.OffsetCommitRequest(self.name, -1, "", None, ((self.tp, 5, 0, ""),))

    def _commit_in_transaction(self) -> m.TxnOffsetCommitRequest:
        return self.transactions.commit(PRODUCER, self.name, self.tp)

    def _add(self) -> m.AddPartitionsToTxnRequest:
        return self.transactions.add(PRODUCER, self.tp)

    def _beat(self) -> m.ConsumerGroupHeartbeatRequest:
        return m.ConsumerGroupHeartbeatRequest(
            f"{self.name}-new", MEMBER, 0, None, None, 30_000, (self.name,), None, None, ()
        )


KINDS = {
    TOPIC: Resources.of_topic,
    GROUP: Resources.of_group,
    TRANSACTIONAL_ID: Resources.of_transactional_id,
    CLUSTER: Resources.of_cluster,
}
"""The types of resources, and the requests about each."""


def single(talk: Talk) -> None:
    """Every request with each operation on each type of resource."""
    one = Resources(talk, "one")
    await_ids(talk)
    for kind, asked in KINDS.items():
        name = CLUSTER_NAME if kind == CLUSTER else one.name
        pattern = LITERAL if kind == CLUSTER else PREFIXED
        needed = [each for each in (TOPIC, GROUP, TRANSACTIONAL_ID) if CLUSTER != kind != each]
        others = [entry(ALL, one.name, each, pattern=PREFIXED) for each in needed]
        for operation in (None, *OPERATIONS):
            own = [entry(operation, name, kind, pattern=pattern)] if operation else []
            put(talk, *own, *others)
            for what, (message, node) in asked(one).items():
                label = f"{operation or 'nothing'} on the {kind} / {what}"
                talk.ask(label, message, node, "alice")
    put(talk)


def unknown(talk: Talk) -> None:
    """Every request about what does not exist, by a user who may do nothing."""
    put(talk)
    nowhere = Resources(talk, "nowhere", exists=False)
    for kind, asked in KINDS.items():
        for what, (message, node) in asked(nowhere).items():
            talk.ask(f"{kind} / {what}", message, node, "alice")
