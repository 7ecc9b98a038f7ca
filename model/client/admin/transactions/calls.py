"""Admin's calls about transactions: describe, list, fence, abort, and the search for hanging ones.

Kafka: DescribeTransactionsHandler, ListTransactionsHandler, FenceProducersHandler,
DescribeProducersHandler, AbortTransactionHandler; ``kafka-transactions.sh find-hanging``
(TransactionsCommand). An error that no retry mends is part of the result.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.client.admin.calls import AdminCall, AdminCalls
from kafkasim.model.client.admin.transactions.drivers import (
    Driver,
    Results,
    ToAllBrokers,
    ToCoordinators,
    ToLeaders,
)
from kafkasim.model.errors import RETRIABLE, Errors
from kafkasim.model.messages import (
    DescribedTransaction,
    DescribeProducersPartition,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    ProducerState,
    WritableTxnMarker,
    WriteTxnMarkersRequest,
)
from kafkasim.model.records import TopicPartition

NO_OPEN_TRANSACTION = -1
Partitions = tuple[TopicPartition, ...]


class TransactionCalls:
    """Begins the calls; each method takes (call, arguments, now) as the other calls do."""

    def __init__(self, calls: AdminCalls) -> None:
        self._calls = calls

    def describe_transactions(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Describe (transactional ids,); reply a DescribedTransaction for each."""
        one = self._call(call, "describe transactions", now)
        self.described(one, tuple(args[0]), lambda found, _: one.reply(tuple(found.values())), now)

    def list_transactions(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """List (states, producer ids, duration in ms); all may be left out.

        Reply ((transactional id, producer id, state), …) of all brokers, sorted.
        """
        one = self._call(call, "list transactions", now)
        request = ListTransactionsRequest(*args)
        self.list_all(one, request, lambda found, _: one.reply(_listed(found)), now)

    def fence_producers(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Fence the producers of (transactional ids,).

        Reply ((transactional id, error, producer id, epoch), …).
        """
        one = self._call(call, "fence producers", now)
        timeout_ms = self._calls.connections.config.request_timeout_ms

        def done(found: Results, _: int) -> None:
            one.reply(tuple([(name, *_fenced(answer)) for name, answer in found.items()]))

        def build(name: str) -> InitProducerIdRequest:
            return InitProducerIdRequest(name, timeout_ms)

        self._start(ToCoordinators, one, tuple(args[0]), build, _final, done, now)

    def describe_producers(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Describe the producers of (partitions,); reply a DescribeProducersPartition for each."""
        one = self._call(call, "describe producers", now)
        partitions = tuple([TopicPartition(*tp) for tp in args[0]])
        self.producers(one, partitions, lambda found, _: one.reply(tuple(found.values())), now)

    def abort_transaction(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Abort what (partition, producer id, epoch, coordinator epoch) has left open there.

        The marker goes to the partition's leader, past the coordinator. Reply the error.
        """
        one = self._call(call, "abort transaction", now)
        tp = TopicPartition(*args[0])
        marker = WritableTxnMarker(args[1], args[2], False, (tp,), args[3])

        def judge(answer: Any) -> Errors | None:
            error: Errors = answer.results[0][1][0][1]
            return None if error in RETRIABLE else error

        def done(found: Results, _: int) -> None:
            one.reply(found[tp])

        request = WriteTxnMarkersRequest((marker,))
        self._start(ToLeaders, one, (tp,), lambda _: request, judge, done, now)

    def find_hanging_transactions(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Search (partitions, longest timeout in ms) for transactions that no one will end.

        Reply ((partition, ProducerState), …).
        """
        one = self._call(call, "find hanging transactions", now)
        partitions = tuple([TopicPartition(*tp) for tp in args[0]])
        FindHanging(self, one, partitions, args[1], self._calls).start(now)

    # What the calls, and the search among them, are made of.

    def _call(self, call: int, what: str, now: int) -> AdminCall:
        return AdminCall(self._calls, call, what, now)

    def _start(self, kind: type[Driver], *args: Any) -> None:
        *rest, now = args
        kind(self._calls.connections, *rest).attempt(now)

    def described(self, one: AdminCall, names: tuple[str, ...], done: Any, now: int) -> None:
        """Ask the coordinator of each transactional id to describe it."""

        def build(name: str) -> DescribeTransactionsRequest:
            return DescribeTransactionsRequest((name,))

        def judge(answer: Any) -> DescribedTransaction | None:
            found: DescribedTransaction = answer.transactions[0]
            return None if found.error in RETRIABLE else found

        self._start(ToCoordinators, one, names, build, judge, done, now)

    def list_all(self, one: AdminCall, request: Any, done: Any, now: int) -> None:
        """Send a ListTransactions request to every broker."""
        self._start(ToAllBrokers, one, (), lambda _: request, _final, done, now)

    def producers(self, one: AdminCall, tps: Partitions, done: Any, now: int) -> None:
        """Ask the leader of each partition for its producers."""

        def build(tp: TopicPartition) -> DescribeProducersRequest:
            return DescribeProducersRequest((tp,))

        def judge(answer: Any) -> DescribeProducersPartition | None:
            found: DescribeProducersPartition = answer.partitions[0]
            return None if found.error in RETRIABLE else found

        self._start(ToLeaders, one, tps, build, judge, done, now)


class FindHanging:
    """Open transactions that are old, less those that a coordinator will still end.

    A coordinator will end a transaction if the partition is among those that it names: it takes
    them away one by one as it writes their markers.
    """

    def __init__(
        self,
        requests: TransactionCalls,
        call: AdminCall,
        partitions: Partitions,
        max_timeout_ms: int,
        calls: AdminCalls,
    ) -> None:
        self._requests = requests
        self._call = call
        self._partitions = partitions
        self._max_timeout_ms = max_timeout_ms
        self._process = calls.connections.process
        self._candidates: list[tuple[TopicPartition, ProducerState]] = []
        self._names: dict[int, str] = {}  # producer id -> transactional id

    def start(self, now: int) -> None:
        """Look for open transactions."""
        self._requests.producers(self._call, self._partitions, self._on_producers, now)

    def _on_producers(self, found: Results, now: int) -> None:
        now_ms = self._process.wall_ms(now)
        for tp, described in found.items():
            for state in described.producers:
                is_open = state.current_txn_start_offset != NO_OPEN_TRANSACTION
                if is_open and now_ms - state.last_timestamp_ms > self._max_timeout_ms:
                    self._candidates.append((tp, state))
        if not self._candidates:
            self._call.reply(())
            return
        producers = tuple(dict.fromkeys([state.producer_id for _, state in self._candidates]))
        request = ListTransactionsRequest((), producers)
        self._requests.list_all(self._call, request, self._on_listed, now)

    def _on_listed(self, found: Results, now: int) -> None:
        self._names = {producer_id: name for name, producer_id, _ in _listed(found)}
        names = tuple(dict.fromkeys(self._names.values()))
        if names:
            self._requests.described(self._call, names, self._on_described, now)
        else:
            self._on_described({}, now)

    def _on_described(self, found: Results, _: int) -> None:
        hanging = []
        for tp, state in self._candidates:
            described = found.get(self._names.get(state.producer_id, ""))
            if not isinstance(described, DescribedTransaction) or tp not in described.partitions:
                hanging.append((tp, state))
        self._call.reply(tuple(hanging))


def _final(answer: Any) -> Any:
    """Return an answer, None if its error is retriable."""
    return None if answer.error in RETRIABLE else answer


def _fenced(answer: Any) -> tuple[Errors, int, int]:
    if isinstance(answer, Errors):
        return answer, -1, -1
    return answer.error, answer.producer_id, answer.producer_epoch


def _listed(found: Results) -> tuple[tuple[str, int, str], ...]:
    return tuple(sorted([each for answer in found.values() for each in answer.transactions]))
