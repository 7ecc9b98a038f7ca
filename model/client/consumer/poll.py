"""The outstanding poll() of a consumer: the loop of ClassicKafkaConsumer.poll as a state.

An application's poll() waits in this object until it ends with records, with nothing at its
deadline, with an error, or with an event of a rebalance. Whatever happens meanwhile calls
:meth:`Poll.wake`, which runs one more pass of the loop.

In Kafka poll() calls the application's rebalance listener. Here it replies the event
(``("revoked" | "lost" | "assigned", partitions)``); the application does what its listener would
do (commit, seek), and then calls ``continue``, which goes on with the same poll(). An assignor that
asks brokers makes one event more, ``("assign", (topics, members))``, of the leader: ``continue``
then takes the assignment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.client.exceptions import KafkaError, KafkaTimeoutError
from kafkasim.model.effects import Reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.effects import Process
    from kafkasim.model.errors import Errors
    from kafkasim.model.records import TopicPartition


class Poll:
    """At most one outstanding poll() of a consumer called ``name``.

    ``advance(now)`` is one pass of the loop.
    """

    def __init__(self, process: Process, name: str, advance: Callable[[int], None]) -> None:
        self.process = process
        self.name = name
        self._advance = advance
        self._call: int | None = None
        self.number = 0  # of the poll() that is outstanding, or the last one
        self._deadline = 0
        self._outer = 0  # the deadline of the poll() in whose rebalance listener position() waits
        self._error: KafkaError | None = None  # raised by the next pass
        self._then: Callable[[int], None] | None = None  # run when the application continues
        self.answer: Any = None  # what the application continued with
        self._stepping = False
        self._again = False
        self._look: Callable[[int], Any] | None = None  # of position(), which waits in its place
        self._handling = False  # the application handles what the last poll() returned
        self._interrupt: Callable[[int], None] | None = None  # run in place of the next poll()
        self._key = ("poll", name)

    @property
    def outstanding(self) -> bool:
        """Whether the application is inside poll()."""
        return self._call is not None and self._look is None

    # The application.

    def begin(self, call: int, timeout_ms: int, now: int) -> None:
        """Begin a poll() that ends after ``timeout_ms`` at the latest."""
        assert self._call is None, f"{self.name} is polled twice at a time"
        self._call = call
        self.number += 1
        self._deadline = now + timeout_ms * 1000
        if self._then is not None:
            self._resume(now)
        self._start(now)

    def go_on(self, call: int, now: int, answer: Any = None) -> None:
        """Go on with the poll() that ended with an event."""
        assert self._then is not None, f"{self.name} has no event to continue from"
        self._call = call
        self.answer = answer
        self._resume(now)
        self._start(now)

    def wait_for(
        self, call: int, look: Callable[[int], Any], timeout_ms: int, what: str, now: int
    ) -> None:
        """Reply what ``look(now)`` returns as soon as that is not None.

        It is called whenever something has changed, as a pass of poll() is, and may be inside a
        rebalance listener. After ``timeout_ms`` the reply is a KafkaTimeoutError about ``what``.
        """
        assert self._call is None, f"{self.name} is called inside poll"
        deadline = now + timeout_ms * 1000
        self._outer = self._deadline
        self._call, self._deadline = call, deadline

        def pass_(at: int) -> None:
            found = look(at)
            if found is not None:
                self._answer(found, None)
            elif at >= deadline:
                self._answer(None, KafkaTimeoutError("REQUEST_TIMED_OUT", what))
            elif not self.process.timers.armed(self._key):
                self.process.timers.arm(self._key, deadline, "main", self._step)

        self._look = pass_
        self._step(now)

    def interrupt(
        self,
        now: int,
        begin: Callable[[], None],
        shut: Callable[[int, Callable[[], None]], None],
        done: Callable[[], None],
    ) -> None:
        """End the outstanding poll() without a reply (wakeup), and close the consumer.

        While the application handles what the last poll() returned, wait for its next call. Then
        ``begin()`` and ``shut(now, done)`` are called.
        """

        def interrupted(at: int) -> None:
            begin()
            shut(at, done)

        self._interrupt = interrupted
        if not self._handling:
            self._start(now)

    # The parts of the consumer.

    def wake(self, now: int) -> None:
        """Run one more pass, if a poll() is outstanding: something has changed."""
        if self._call is not None:
            self._step(now)

    def wake_at(self, deadline: int) -> None:
        """Run one more pass at ``deadline``, or earlier."""
        if self._call is None:
            return
        deadline = min(deadline, self._deadline)
        armed = self.process.timers.deadline(self._key)
        if armed is None or deadline < armed:
            self.process.timers.arm(self._key, deadline, "main", self._step)

    def fail_for_topics(self, error: Errors, topics: tuple[str, ...]) -> None:
        """Fail a poll() for topics that a broker refused (TopicAuthorizationException).

        The application may poll again, and fails again each time that a broker says so.
        """
        self.fail(KafkaError(error.name, f"{', '.join(topics)}"))

    def fail(self, error: KafkaError) -> None:
        """Have the next pass end the poll() with an error, in this poll() or in the next."""
        self._error = error

    def end_with_event(self, kind: str, what: Any, then: Callable[[int], None]) -> None:
        """End the poll() with an event; ``then(now)`` runs when the application continues.

        ``what``: the partitions of a rebalance, the results of acknowledgements, or the topics and
        members that the leader assigns.
        """
        self._then = then
        self._end((kind, what), None)

    def end_with_error(self, error: KafkaError) -> None:
        """End the poll() with an error."""
        self._error = None
        if self._look is not None:
            self._answer(None, error)
        else:
            self._end(None, error)

    def end_or_wait(
        self, records: dict[TopicPartition, Any], position_advanced: bool, now: int
    ) -> None:
        """End the poll() with records, or without any at its deadline; else let it wait.

        It ends without records, too, when a position has advanced: over aborted records, say.
        """
        if self._call is None:
            return
        if records or position_advanced or now >= self._deadline:
            self._end(("records", records), None)
        elif not self.process.timers.armed(self._key):
            self.process.timers.arm(self._key, self._deadline, "main", self._step)

    # The inside.

    def _end(self, result: Any, error: KafkaError | None) -> None:
        call, self._call = self._call, None
        assert call is not None, (self.name, result, error)
        self.process.timers.cancel(self._key)
        self._handling = result is not None and bool(result[1])
        self.process.out.append(Reply(call, result, error))

    def _answer(self, result: Any, error: KafkaError | None) -> None:
        """End the call that waits in the place of poll()."""
        call, self._call, self._look = self._call, None, None
        assert call is not None, (self.name, result, error)
        self._deadline = self._outer
        self.process.timers.cancel(self._key)
        self.process.out.append(Reply(call, result, error))

    def _start(self, now: int) -> None:
        self._handling = False
        if self._interrupt is None:
            self._step(now)
            return
        then, self._interrupt = self._interrupt, None
        self._call = None
        self.process.timers.cancel(self._key)
        then(now)

    def _resume(self, now: int) -> None:
        then, self._then = self._then, None
        assert then is not None, self.name
        then(now)

    def _step(self, now: int) -> None:
        """Run passes until one sets off nothing that asks for another."""
        if self._stepping:
            self._again = True
            return
        self._stepping = True
        self._again = True
        while self._again and self._call is not None:
            self._again = False
            if self._error is not None:
                self.end_with_error(self._error)
            else:
                (self._look or self._advance)(now)
        self._stepping = False
