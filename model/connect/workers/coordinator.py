"""A worker in its group: Kafka's WorkerCoordinator, with the client of WorkerGroupMember.

It is the client ``worker`` of a worker's process. Its poll() is outstanding nearly always; it ends
with what the herder has to do, and goes on when the herder calls ``continue``:

    revoked   stop this work: a rebalance took it, or the coordinator was unknown for
              heartbeat.interval.ms, after which others may be given it
    assigned  an assignment, with all that the worker runs then
    records   nothing: the time is over, or ``wakeup`` was called; the worker is in the group

A worker keeps its work in a rebalance until it is revoked (KIP-415). The leader assigns with the
configuration that ``snapshot`` has told it last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkasim.model.client.consumer.group.heartbeat import Heartbeat
from kafkasim.model.client.consumer.group.join import Assignors, GroupJoin, Partitions
from kafkasim.model.client.consumer.group.lookup import CoordinatorLookup
from kafkasim.model.client.consumer.group.membership import Membership, MemberState
from kafkasim.model.client.consumer.poll import Poll
from kafkasim.model.client.net.connections import Connections
from kafkasim.model.client.net.metadata import Metadata
from kafkasim.model.connect.workers.assignor import IncrementalCooperativeAssignor
from kafkasim.model.connect.workers.work import (
    CONFIG_MISMATCH,
    NO_ERROR,
    Work,
    WorkerAssignment,
    WorkerState,
)
from kafkasim.model.effects import Reply
from kafkasim.model.messages import (
    AssignedPartitions,
    JoinGroupResponse,
    LeaveGroupRequest,
    Subscription,
    user_data_of,
)

if TYPE_CHECKING:
    from kafkasim.model.client.rules import ClientRules
    from kafkasim.model.connect.workers.config import WorkerConfig
    from kafkasim.model.connect.workers.rules import WorkerRules
    from kafkasim.model.effects import Process

PROTOCOLS = ("sessioned", "compatible")
"""connect.protocol=sessioned, by preference (ConnectProtocolCompatibility)."""

CLOSE_TIMEOUT_US = 30_000_000

Configs = tuple[int, tuple[Work, ...]]
"""How far the config topic has been read, and all that has to run."""


class Assigned(NamedTuple):
    """What a rebalance has brought a worker."""

    assignment: WorkerAssignment
    running: tuple[Work, ...]  # what it runs then, with what it had before
    generation: int
    member_id: str

    @property
    def leads(self) -> bool:
        """Whether the worker is the group's leader."""
        return self.member_id == self.assignment.leader


class WorkerAssignors(Assignors):
    """What a worker says when it joins, and what it assigns as the leader."""

    def __init__(self, url: str, membership: Membership, config: WorkerConfig, rules: WorkerRules):
        self.running: tuple[Work, ...] = ()
        self.completed = -1  # the last generation whose assignment has come
        self.configs: Configs = (-1, ())
        self._url = url
        self._membership = membership
        self._snapshot: Configs = self.configs
        self._assignor = IncrementalCooperativeAssignor(
            config.scheduled_rebalance_max_delay_ms, rules
        )

    def subscriptions(self) -> tuple[tuple[str, Subscription], ...]:
        """Return the worker's state under the names of its protocols (metadata())."""
        self._snapshot = self.configs
        state = WorkerState(self._url, self._snapshot[0], self.running)
        return tuple([(name, Subscription((), user_data=state)) for name in PROTOCOLS])

    def assign(self, response: JoinGroupResponse, now: int) -> tuple[tuple[str, Partitions], ...]:
        """Assign all work to the members (IncrementalCooperativeAssignor.performAssignment)."""
        states: dict[str, WorkerState] = {
            each.member_id: each.subscription.user_data for each in response.members
        }
        end = max(state.offset for state in states.values())
        if self._snapshot[0] < end:
            self._snapshot = self.configs
        error, delay_ms = CONFIG_MISMATCH, 0
        given = dict.fromkeys(states, (tuple[Work, ...](), tuple[Work, ...]()))
        if self._snapshot[0] >= end:
            error, end = NO_ERROR, self._snapshot[0]
            running = {member: state.running for member, state in states.items()}
            generation = self._membership.generation_id
            given = self._assignor.assign(
                self._snapshot[1], running, self.completed, generation, now // 1000
            )
            delay_ms = self._assignor.delay_ms
        leader = response.leader
        url = states[leader].url
        return tuple(
            [
                (member, AssignedPartitions((), WorkerAssignment(
                    error, leader, url, end, *given[member], delay_ms
                )))
                for member in states
            ]
        )  # fmt: skip


class WorkerCoordinator:
    """Joins, keeps and leaves the group of a worker."""

    def __init__(
        self,
        process: Process,
        name: str,
        config: WorkerConfig,
        bootstrap: tuple[str, ...],
        client_rules: ClientRules,
        rules: WorkerRules,
    ) -> None:
        self.process = process
        self._config = config
        self._rules = rules
        self.connections = Connections(process, name, config, bootstrap, "connect", client_rules)
        self.metadata = Metadata(self.connections, client_rules, False)
        self._membership = membership = Membership()
        self._poll = poll = Poll(process, name, self._advance)
        self._lookup = lookup = CoordinatorLookup(
            self.connections, config.group_id, poll, self.metadata
        )
        lookup.found.append(self._on_found)
        self._heartbeat = heartbeat = Heartbeat(config, lookup, membership, self, poll)
        self._work = WorkerAssignors(process.name, membership, config, rules)
        self._join = GroupJoin(config, lookup, membership, heartbeat, self, self._work, poll)
        self._assignment: WorkerAssignment | None = None
        self._rejoin_reason = ""
        self._rejoin_needed = True
        self._in_callback = False
        self._woken = False
        self._unknown_us: int | None = None  # since when a poll() finds no coordinator
        self._key = ("worker", name)
        self.methods: dict[str, Callable[[int, tuple[Any, ...], int], None]] = {
            "poll": lambda call, args, now: poll.begin(call, args[0], now),
            "continue": lambda call, _args, now: poll.go_on(call, now),
            "wakeup": self._wakeup,
            "snapshot": self._take_snapshot,
            "request_rejoin": self._ask_rejoin,
            "leave": self._leave_group,
        }

    # Calls of the herder.

    def _wakeup(self, call: int, _args: tuple[Any, ...], now: int) -> None:
        """End the outstanding poll(), or the next one, as soon as the worker is in the group."""
        self._woken = True
        self._poll.wake(now)
        self._reply(call)

    def _take_snapshot(self, call: int, args: tuple[Any, ...], _now: int) -> None:
        """Take (end of the config topic, all work) from the herder."""
        self._work.configs = args[0], args[1]
        self._reply(call)

    def _ask_rejoin(self, call: int, _args: tuple[Any, ...], now: int) -> None:
        self.request_rejoin("connect worker requested rejoin")
        self._poll.wake(now)
        self._reply(call)

    def _leave_group(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Leave for (reason,), until the next poll()."""
        self._leave(args[0], now, lambda _response, _at: None)
        self._reply(call)

    def _reply(self, call: int) -> None:
        self.process.out.append(Reply(call, None, None))

    # One pass of poll().

    def _advance(self, now: int) -> None:
        self._heartbeat.on_poll(now)
        if self._in_callback:
            return
        if self._lookup.channel is None:
            self._look_up(now)
        elif self._join.under_way:
            self._join.handle_late_response(now)
        elif self._join.assignment is not None:
            self._complete(now)
        elif self._rejoin_needed or self._assignment is None or self._assignment.failed:
            if self._join.backoff_is_over(now):
                self._join.send(self._rejoin_reason, now)
        else:
            woken, self._woken = self._woken, False
            self._poll.end_or_wait({}, woken, now)

    def _look_up(self, now: int) -> None:
        """Look the coordinator up; without one for too long, give all work up."""
        self._lookup.find(now)
        if self._unknown_us is None:
            self._unknown_us = now
        due = self._unknown_us + self._config.heartbeat_interval_ms * 1000
        if now < due:
            self.process.timers.arm(self._key, due, "main", self._poll.wake)
        elif self._gives_up():
            revoked, self._work.running = self._work.running, ()
            self._assignment = None
            self._report("revoked", revoked, lambda _now: None)

    def _gives_up(self) -> bool:
        held = self._assignment is not None and not self._assignment.failed
        return held and self._rules.stops_without_coordinator()

    def _on_found(self, _now: int) -> None:
        self._unknown_us = None
        self.process.timers.cancel(self._key)

    def _complete(self, now: int) -> None:
        """Take a new assignment (onJoinComplete)."""
        given = self._join.take_assignment()
        assert given is not None, self._config.group_id
        assignment: WorkerAssignment = user_data_of(given)
        self._rejoin_needed = False
        self._membership.take_assignment()
        self._join.end(now)
        generation, member_id = self._membership.group_metadata

        def taken(_now: int) -> None:
            kept = [item for item in self._work.running if item not in assignment.revoked]
            self._work.running = tuple(dict.fromkeys([*assignment.assigned, *kept]))
            self._work.completed = generation
            self._assignment = assignment
            self._woken = True
            told = Assigned(assignment, self._work.running, generation, member_id)
            self._report("assigned", told, lambda _now: None)

        if assignment.revoked:
            self._report("revoked", assignment.revoked, taken)
        else:
            taken(now)

    def _report(self, kind: str, what: Any, then: Callable[[int], None]) -> None:
        """End the poll() with an event; ``then(now)`` runs when the herder continues."""

        def handled(now: int) -> None:
            self._in_callback = False
            then(now)

        self._in_callback = True
        self._poll.end_with_event(kind, what, handled)

    # What heartbeats and the join may cause (MemberEvents).

    def request_rejoin(self, reason: str) -> None:
        """Join again at the next poll()."""
        self._rejoin_needed = True
        self._rejoin_reason = reason

    def reset_generation(self, reason: str, keep_member_id: bool = False) -> None:
        """Join anew: the coordinator has dropped this member (resetStateAndRejoin)."""
        self._membership.reset(keep_member_id)
        self.request_rejoin(reason)
        self._join.take_assignment()

    def on_fenced(self, now: int) -> None:
        """Never: Connect has no static members."""
        raise AssertionError(self._config.group_id, now)

    def on_poll_timeout(self, now: int) -> None:
        """Leave: the herder was busy for rebalance.timeout.ms (handlePollTimeoutExpiry)."""
        self._leave("worker poll timeout has expired.", now, lambda _response, _at: None)

    def _leave(self, reason: str, now: int, done: Callable[[Any, int], None]) -> bool:
        """Leave the group; return whether a LeaveGroup was sent, to which ``done`` is called."""
        membership, channel = self._membership, self._lookup.channel
        sends = (
            channel is not None
            and membership.state is not MemberState.UNJOINED
            and bool(membership.member_id)
        )
        if channel is not None and sends:
            request = LeaveGroupRequest(
                self._config.group_id, ((membership.member_id, None, reason),)
            )
            channel.send(request, now, done, CLOSE_TIMEOUT_US)
        self.reset_generation(reason)
        return sends

    # The end.

    def shut(self, now: int, done: Callable[[], None]) -> None:
        """Leave the group, close the connections, then call ``done()``."""
        self._heartbeat.disable()

        def left(_response: Any, _at: int) -> None:
            self._lookup.close()
            self.metadata.close()
            self.connections.close()
            done()

        if not self._leave("the worker is being closed", now, left):
            left(None, now)
