"""Error codes that a coordinator answers here: what no raw request shows .

``HERE`` has for an API of a coordinator, and for each code, a function that provokes it and returns
the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    ConsumerGroupDescribeRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    ListTransactionsRequest,
    OffsetDeleteRequest,
)
from kafkasim.model.records import TopicPartition
from tests.model.consumer_group_harness import ConsumerBench, beat, joining
from tests.model.group_harness import GROUP, T0, commit, fetch, heartbeat, join, leave, sync
from tests.model.test_group_transactions import txn_commit
from tests.model.transaction_harness import Bench as TransactionBench

Api = tuple[str, str]  # coordinator, API


def _bench(**options: Any) -> ConsumerBench:
    bench = ConsumerBench(**options)
    bench.elect()
    return bench


def _loading() -> ConsumerBench:
    """A coordinator that was just elected, of a log that is not empty."""
    bench = _bench()
    bench.get(commit(5, tp=T0))
    after = ConsumerBench(log=bench.log)
    after.group.on_elected(0, 2, 0)
    return after


def loading_answer(request: Any) -> Any:
    bench = _loading()
    bench.ask_only(request)
    return bench.answers[bench.last]


def _refusing(
    error: Errors, request: Callable[[ConsumerBench], Any],
    before: Callable[[ConsumerBench], Any] = lambda _: None, **options: Any,
) -> Any:  # fmt: skip
    """Ask while the log refuses appends with an error."""
    bench = _bench(**options)
    before(bench)
    made = request(bench)
    bench.log.error = error
    return bench.get(made)


_FAILURES = {
    "COORDINATOR_NOT_AVAILABLE": Errors.NOT_ENOUGH_REPLICAS,
    "UNKNOWN_SERVER_ERROR": Errors.MESSAGE_TOO_LARGE,
}


def _failures(
    request: Callable[[ConsumerBench], Any],
    before: Callable[[ConsumerBench], Any] = lambda _: None,
) -> dict[str, Callable[[], Any]]:
    """Return the answers to a request whose records cannot be appended."""
    return {code: partial(_refusing, error, request, before) for code, error in _FAILURES.items()}


def _committed(bench: ConsumerBench) -> None:
    bench.get(commit(5))


def _leader_sync(bench: ConsumerBench) -> Any:
    joined = bench.ask(join(bench.member_id("a"), client="a"))
    bench.wait(10)
    answer = bench.answers[joined]
    return sync(answer.member_id, answer.generation_id, ((answer.member_id, (T0,)),))


def _new_static(bench: ConsumerBench) -> Any:
    """A static member comes back: its group's record is written at once."""
    asked = bench.ask(join(instance="i", client="a"))
    bench.wait(10)
    answer = bench.answers[asked]
    given = ((answer.member_id, (T0,)),)
    bench.get(sync(answer.member_id, answer.generation_id, given, instance="i"))
    return join(instance="i", client="a")


def _full(first: Any, second: Any, **options: Any) -> Any:
    bench = _bench(**options)
    bench.get(first) if first is not None else bench.form("a")
    return bench.get(second)


def _rebalancing() -> tuple[ConsumerBench, int, str]:
    bench = _bench()
    generation, ids = bench.form("a")
    bench.ask(join(bench.member_id("b"), client="b"))
    return bench, generation, ids["a"]


def _in_rebalance(request: Callable[..., Any]) -> Any:
    bench, generation, member = _rebalancing()
    return bench.get(request(member, generation))


def _upgraded() -> Any:
    """A join is parked while another member upgrades the group (convertToConsumerGroup)."""
    bench = _bench(group_consumer_migration_policy="bidirectional")
    _, _ = bench.form("a")
    parked = bench.ask(join(bench.member_id("b"), client="b"))
    bench.get(joining("c"))
    return bench.answers[parked]


def _with_modern(request: Any, **options: Any) -> Any:
    """Ask about a consumer group with the member a, which is stable."""
    bench = _bench(**{"group_consumer_migration_policy": "bidirectional", **options})
    bench.converge("a")
    return bench.get(request)


def _upgraded_member(*, static: bool = False) -> tuple[ConsumerBench, str, int]:
    """A consumer group with a classic member, which has the instance id i if it is static."""
    bench = _bench(group_consumer_migration_policy="bidirectional")
    instance = "i" if static else None
    asked = bench.ask(join("" if static else bench.member_id("a"), client="a", instance=instance))
    bench.wait(10)
    answer = bench.answers[asked]
    member, given = answer.member_id, ((answer.member_id, (T0,)),)
    bench.get(sync(member, answer.generation_id, given, instance=instance))
    bench.get(joining("m"))
    return bench, member, bench.consumer_group().members[member].member_epoch


def _of_upgraded(request: Callable[[str, int], Any], *, static: bool = False) -> Any:
    bench, member, epoch = _upgraded_member(static=static)
    return bench.get(request(member, epoch))


def _failures_of_upgraded(request: Callable[[str, int], Any]) -> dict[str, Callable[[], Any]]:
    def ask(error: Errors) -> Any:
        bench, member, epoch = _upgraded_member()
        bench.log.error = error
        return bench.get(request(member, epoch))

    return {code: partial(ask, error) for code, error in _FAILURES.items()}


def _txn(loading: bool = False, error: Errors = Errors.NONE, **fields: Any) -> Any:
    bench = _loading() if loading else _bench()
    if loading:
        bench.out.clear()  # the load does not begin
    elif error:
        bench.log.error = error
    return txn_commit(bench, 5, **fields)


def _txn_modern(**fields: Any) -> Any:
    bench = _bench()
    bench.converge("a")
    return txn_commit(bench, 5, **fields)


def _static_txn() -> Any:
    bench = _bench()
    asked = bench.ask(join(instance="i", client="a"))
    bench.wait(10)
    generation = bench.answers[asked].generation_id
    return txn_commit(bench, 5, generation_id=generation, member_id="else", group_instance_id="i")


def _txn_unknown_member() -> Any:
    bench = _bench()
    generation, _ = bench.form("a")
    return txn_commit(bench, 5, generation_id=generation, member_id="nobody")


def _delete_group_failures() -> dict[str, Callable[[], Any]]:
    return _failures(lambda _: DeleteGroupsRequest((GROUP,)), _committed)


def _transaction(
    ask: Callable[[TransactionBench], Any],
    before: Callable[[TransactionBench], Any] = lambda _: None,
    error: Errors = Errors.NONE,
    version: int = 0,
) -> Any:
    bench = TransactionBench(version).elect()
    before(bench)
    bench.log.error = error
    return ask(bench)


def _transaction_failures(
    ask: Callable[[TransactionBench], Any], before: Callable[[TransactionBench], Any]
) -> dict[str, Callable[[], Any]]:
    return {code: partial(_transaction, ask, before, error) for code, error in _FAILURES.items()}


def _transaction_loading(ask: Callable[[TransactionBench], Any]) -> Any:
    first = TransactionBench().elect()
    first.init()
    bench = TransactionBench(log=first.log)
    bench.coordinator.on_elected(0, 2, 0)
    bench.out.clear()  # the load does not begin
    return ask(bench)


def _decided(bench: TransactionBench) -> None:
    """Its transaction is decided, and no marker is answered."""
    bench.init()
    bench.add(1000, 0)
    bench.end(1000, 0, True)


def _begun(bench: TransactionBench) -> None:
    bench.init()
    bench.add(1000, 0)


def _init(bench: TransactionBench) -> Any:
    return bench.init()


def _add(bench: TransactionBench) -> Any:
    return bench.add(1000, 0)


def _end(bench: TransactionBench) -> Any:
    return bench.end(1000, 0, True)


OFFSETS_TP = TopicPartition("__consumer_offsets", 0)


def _add_offsets(bench: TransactionBench) -> Any:
    """AddOffsetsToTxn adds the group's partition (KafkaApis.handleAddOffsetsToTxnRequest)."""
    return bench.add(1000, 0, OFFSETS_TP)


def _loads(request: Any) -> dict[str, Callable[[], Any]]:
    return {"COORDINATOR_LOAD_IN_PROGRESS": lambda: loading_answer(request)}


DELETE_OFFSETS = OffsetDeleteRequest(GROUP, (T0,))

HERE: dict[Api, dict[str, Callable[[], Any]]] = {
    ("classic", "JoinGroup"): {
        **_loads(join()),
        **_failures(_new_static, lambda _: None),
        "GROUP_MAX_SIZE_REACHED": lambda: _full(None, join(client="b"), group_max_size=1),
        "REBALANCE_IN_PROGRESS": _upgraded,
    },
    ("classic", "SyncGroup"): {
        **_loads(sync("a", 1)),
        **_failures(_leader_sync),
        "REBALANCE_IN_PROGRESS": lambda: _in_rebalance(sync),
    },
    ("classic", "Heartbeat"): {"REBALANCE_IN_PROGRESS": lambda: _in_rebalance(heartbeat)},
    ("classic", "LeaveGroup"): _loads(leave("a")),
    ("classic", "OffsetCommit"): {**_loads(commit(5)), **_failures(lambda _: commit(5))},
    ("classic", "OffsetFetch"): _loads(fetch(T0)),
    ("classic", "OffsetDelete"): {
        **_loads(DELETE_OFFSETS),
        **_failures(lambda _: DELETE_OFFSETS, _committed),
    },
    ("classic", "TxnOffsetCommit"): {
        "COORDINATOR_LOAD_IN_PROGRESS": lambda: _txn(loading=True),
        **{code: partial(_txn, error=error) for code, error in _FAILURES.items()},
        "INVALID_PRODUCER_ID_MAPPING": lambda: _txn(error=Errors.INVALID_PRODUCER_ID_MAPPING),
        "FENCED_INSTANCE_ID": _static_txn,
        "UNKNOWN_MEMBER_ID": _txn_unknown_member,
    },
    ("classic", "DescribeGroups"): _loads(DescribeGroupsRequest((GROUP,))),
    ("classic", "ListGroups"): _loads(ListGroupsRequest()),
    ("classic", "DeleteGroups"): {
        **_loads(DeleteGroupsRequest((GROUP,))),
        **_delete_group_failures(),
    },
    ("consumer", "ConsumerGroupHeartbeat"): {
        **_loads(joining("a")),
        **_failures(lambda _: joining("a")),
        "GROUP_MAX_SIZE_REACHED": lambda: _full(
            joining("a"), joining("b"), group_consumer_max_size=1
        ),
        "UNSUPPORTED_VERSION": lambda: _full(
            beat("a", 1), joining("a"), group_coordinator_rebalance_protocols=("classic",)
        ),
    },
    ("consumer", "ConsumerGroupDescribe"): {
        **_loads(ConsumerGroupDescribeRequest((GROUP,))),
        "UNSUPPORTED_VERSION": lambda: _full(
            beat("a", 1),
            ConsumerGroupDescribeRequest((GROUP,)),
            group_coordinator_rebalance_protocols=("classic",),
        ),
    },
    ("consumer", "JoinGroup"): {
        **_failures_of_upgraded(lambda member, _: join(member, topics=("orders", "more"))),
        "UNKNOWN_MEMBER_ID": lambda: _with_modern(join("b", instance="nobody")),
        "GROUP_MAX_SIZE_REACHED": lambda: _with_modern(join(client="b"), group_consumer_max_size=1),
        "FENCED_INSTANCE_ID": lambda: _of_upgraded(
            lambda _member, _epoch: join("other", instance="i"), static=True
        ),
    },
    ("consumer", "SyncGroup"): {
        "FENCED_INSTANCE_ID": lambda: _of_upgraded(
            lambda _member, epoch: sync("other", epoch, instance="i"), static=True
        ),
        "ILLEGAL_GENERATION": lambda: _of_upgraded(lambda member, epoch: sync(member, epoch + 7)),
    },
    ("consumer", "Heartbeat"): {
        "FENCED_INSTANCE_ID": lambda: _of_upgraded(
            lambda _member, epoch: heartbeat("other", epoch, "i"), static=True
        ),
    },
    ("consumer", "LeaveGroup"): {
        **_failures_of_upgraded(lambda member, _: leave(member)),
        "FENCED_INSTANCE_ID": lambda: _of_upgraded(
            lambda _member, _epoch: LeaveGroupRequest(GROUP, (("other", "i", ""),)), static=True
        ),
    },
    ("consumer", "TxnOffsetCommit"): {
        "ILLEGAL_GENERATION": lambda: _txn_modern(member_id="a", generation_id=0),
        "UNKNOWN_MEMBER_ID": lambda: _txn_modern(member_id="b", generation_id=1),
    },
    ("consumer", "OffsetDelete"): {
        "GROUP_SUBSCRIBED_TO_TOPIC": lambda: _with_modern(DELETE_OFFSETS)
    },
    ("consumer", "DeleteGroups"): {
        "NON_EMPTY_GROUP": lambda: _with_modern(DeleteGroupsRequest((GROUP,)))
    },
    ("transaction", "InitProducerId"): {
        "COORDINATOR_LOAD_IN_PROGRESS": lambda: _transaction_loading(_init),
        **_transaction_failures(_init, lambda _: None),
    },
    ("transaction", "AddPartitionsToTxn"): {
        "COORDINATOR_LOAD_IN_PROGRESS": lambda: _transaction_loading(_add),
        "CONCURRENT_TRANSACTIONS": lambda: _transaction(_add, _decided),
        **_transaction_failures(_add, _init),
    },
    ("transaction", "AddOffsetsToTxn"): {
        "COORDINATOR_LOAD_IN_PROGRESS": lambda: _transaction_loading(_add_offsets),
        "CONCURRENT_TRANSACTIONS": lambda: _transaction(_add_offsets, _decided),
        "NOT_COORDINATOR": lambda: _transaction(_add_offsets, lambda bench: bench.resign(2)),
        "INVALID_REQUEST": lambda: _transaction(
            lambda bench: bench.add(1000, 0, OFFSETS_TP, transactional_id="")
        ),
        **_transaction_failures(_add_offsets, _init),
    },
    ("transaction", "EndTxn"): {
        "COORDINATOR_LOAD_IN_PROGRESS": lambda: _transaction_loading(_end),
        "CONCURRENT_TRANSACTIONS": lambda: _transaction(_end, _decided),
        **_transaction_failures(_end, _begun),
    },
    ("transaction", "DescribeTransactions"): {
        "COORDINATOR_LOAD_IN_PROGRESS": lambda: _transaction_loading(
            lambda bench: bench.coordinator.queries.describe("payments")
        ),
    },
    ("transaction", "ListTransactions"): {
        "COORDINATOR_LOAD_IN_PROGRESS": lambda: _transaction_loading(
            lambda bench: bench.coordinator.queries.list(ListTransactionsRequest(), 0)
        ),
    },
}
"""What is answered here: API to code to the answer that has it."""
