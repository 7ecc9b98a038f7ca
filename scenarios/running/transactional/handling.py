"""How an application handles errors of its transactions.

It does what the documentation of KafkaProducer asks for. After an error the transaction is aborted;
if that fails, or a sequence number was out of order, the producer is closed and a new one takes its
place. A commit or an abort that times out is called again. What another producer would meet as well
ends the application.
"""

from __future__ import annotations

from kafkasim.model.client.exceptions import (
    InvalidProducerEpochError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
)
from kafkasim.scenarios.running.workloads import Control
from kafkasim.sim.apps.client_port import ClientPort

FENCED = (ProducerFencedError, InvalidProducerEpochError)

MISCONFIGURED = (
    "INVALID_TRANSACTION_TIMEOUT",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
)
"""Errors of the configuration: a new producer has the same one, and gets the same answer."""

OUT_OF_ORDER = "OUT_OF_ORDER_SEQUENCE_NUMBER"
"""The error after which an abort does not help. A leader may have forgotten the producer's sequence
numbers, and before transaction.version 2 a producer that was committing meanwhile keeps its epoch
and counts on (TransactionManager.maybeTransitionToErrorState, isCompleting)."""


class Fenced(Exception):
    """Another producer has the transactional id, and the application exits for it."""


class Transactions:
    """The transactions of one incarnation of an application."""

    def __init__(self, port: ClientPort, node: str, control: Control, *, exits: bool) -> None:
        """``exits``: after a fencing the application ends (:class:`Fenced`)."""
        self._port = port
        self._node = node
        self._control = control
        self._exits = exits

    async def initialize(self) -> None:
        """Get a producer id, with a new producer if the present one fails for good.

        Raises:
            KafkaError: the brokers refuse the producer's configuration.
        """
        while True:
            try:
                await self._until_done("init_transactions")
                return
            except KafkaError as error:
                if error.error in MISCONFIGURED:
                    raise
                await self._renew(error)

    async def begin(self) -> None:
        """Begin a transaction."""
        await self._port.call("producer.begin_transaction")

    async def end(self, commit: bool) -> None:
        """Commit or abort.

        Raises:
            KafkaError: the transaction was not committed; it has to be aborted.
        """
        await self._until_done("commit_transaction" if commit else "abort_transaction")

    async def recover(self, error: KafkaError) -> None:
        """Abort the transaction that has failed, or go on with a new producer.

        Raises:
            Fenced: another producer has the transactional id, and the application exits then.
        """
        self._control.caught[self._node] = str(error)
        if error.error != OUT_OF_ORDER:
            try:
                await self.end(False)
                return
            except KafkaError as fatal:
                error = fatal
        await self._renew(error)
        await self.initialize()

    async def _renew(self, error: KafkaError) -> None:
        if self._exits and isinstance(error, FENCED):
            raise Fenced(str(error))
        self._control.caught[self._node] = str(error)
        await self._port.call("producer.close")
        await self._port.call("producer.renew")

    async def _until_done(self, method: str) -> None:
        """Call a method again as long as max.block.ms ends it: its request is under way."""
        while True:
            try:
                await self._port.call(f"producer.{method}")
                return
            except KafkaTimeoutError:
                continue
