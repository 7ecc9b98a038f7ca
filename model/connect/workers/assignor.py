"""Who runs which connectors and tasks: IncrementalCooperativeAssignor (KIP-415).

The leader of the group runs it in every rebalance. It moves as little as it can:

    created   configured, and nobody has had it: given to the workers with the least
    deleted   assigned, and not configured any more: revoked
    lost      assigned, and nobody reports it: a worker may be restarting, so it waits for
              scheduled.rebalance.max.delay.ms and then goes to workers that have nothing, or to all
    surplus   a worker has more than its share: revoked, and given out in the next rebalance

A worker from which something is revoked joins again at once, so the group rebalances again.

Kafka orders members by the hash of their ids where it revokes; here it is the order in which they
have joined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from kafkasim.model.connect.workers.rules import WorkerRules
from kafkasim.model.connect.workers.work import CONNECTOR, Work

Items = dict[Work, None]  # a set that keeps its order
Loads = dict[str, Items]  # by member id


class IncrementalCooperativeAssignor:
    """The assignor of one worker; what it remembers is of use while the worker leads."""

    def __init__(self, max_delay_ms: int, rules: WorkerRules) -> None:
        self.delay_ms = 0  # after which the group has to rebalance again; 0: not by itself
        self._max_delay_ms = max_delay_ms
        self._rules = rules
        self._previous: Items = {}  # what was assigned, with what was lost
        self._revoked: Items = {}  # in the last rebalance
        self._revoked_in_previous = False
        self._candidates: dict[str, None] = {}  # workers that had nothing while a delay went on
        self._scheduled_ms = 0  # when the delay ends; 0: none goes on
        self._generation = -1  # of the last assignment
        self._members: tuple[str, ...] = ()
        self._revoking_rounds = 0  # in a row

    def assign(
        self,
        configured: Iterable[Work],
        members: Mapping[str, tuple[Work, ...]],
        completed: int,
        generation: int,
        now_ms: int,
    ) -> dict[str, tuple[tuple[Work, ...], tuple[Work, ...]]]:
        """Return what each member starts and stops (performTaskAssignment).

        ``members`` say what they run, ``completed`` is the last generation whose assignment the
        leader has got, ``generation`` the present one.
        """
        wanted = dict.fromkeys(configured)
        if self._generation != completed:
            self._previous = {}  # the leader missed the end of a rebalance: the view may be old
        counts = Counter([item for running in members.values() for item in running])
        active: Items = dict.fromkeys(counts)
        if any(item in active for item in self._revoked):
            self._previous = active  # a revocation did not take effect
        self._revoked = {}
        deleted = _without(self._previous, wanted)
        lost = _without(dict.fromkeys(sorted(self._previous)), active, deleted)
        created = _without(dict.fromkeys(sorted(wanted)), self._previous, active)
        current = {each: _without(dict.fromkeys(has), deleted) for each, has in members.items()}
        gone = {**deleted, **{item: None for item in active if counts[item] > 1}}
        stop = {each: [item for item in has if item in gone] for each, has in members.items()}
        loads = {each: _without(dict.fromkeys(has), gone) for each, has in members.items()}
        reassigned = self._handle_lost(lost, loads, now_ms)
        if self.delay_ms == 0:
            self._balance(wanted, loads, stop, now_ms)
        else:
            self._revoked_in_previous = False
        for connectors in (True, False):
            _spread(loads, _of_kind({**created, **reassigned}, connectors), connectors)
        self._revoked = {item: None for items in stop.values() for item in items}
        assigned = {item: None for items in loads.values() for item in items}
        self._previous = {**_without(assigned, self._revoked), **lost}
        self._generation, self._members = generation, tuple(members)
        return {
            each: (tuple(_without(loads[each], current[each])), tuple(dict.fromkeys(stop[each])))
            for each in members
        }

    def _balance(
        self, wanted: Items, loads: Loads, stop: dict[str, list[Work]], now_ms: int
    ) -> None:
        """Revoke what workers have above their share, unless the last rebalance did so too."""
        surplus = _surplus(wanted, loads)
        if self._revoked_in_previous and surplus:
            if not self._rules.may_revoke_twice():
                self._revoked_in_previous = False
                return
            self._revoking_rounds += 1
            self.delay_ms = self._backoff_ms()
            if self.delay_ms:
                self._scheduled_ms = now_ms + self.delay_ms
                return
        elif surplus:
            self._revoked_in_previous = True
        elif self._revoked_in_previous:
            self._revoked_in_previous = False
            self._revoking_rounds = 0
        for member, items in surplus.items():
            stop[member] += items
            loads[member] = _without(loads[member], dict.fromkeys(items))

    def _backoff_ms(self) -> int:
        """Return how long the group waits before it revokes again.

        ExponentialBackoff of 1 ms, factor 40, up to scheduled.rebalance.max.delay.ms.
        """
        longest_ms: int = 40 ** min(self._revoking_rounds, 6)
        return min(longest_ms, self._max_delay_ms)

    def _handle_lost(self, lost: Items, loads: Loads, now_ms: int) -> Items:
        """Return the lost work to be given out now (handleLostAssignments).

        What goes to workers that had nothing all along is in ``loads`` when it returns.
        """
        if not lost and not self._revoked_in_previous:
            self._reset_delay()
            return {}
        present = self._scheduled_ms <= 0 and all(each in loads for each in self._members)
        if present and not self._rules.missing_of_present_workers_is_lost():
            return lost
        if self._max_delay_ms == 0 and self._rules.reassigns_without_delay():
            return lost
        if 0 < self._scheduled_ms <= now_ms:
            candidates = [each for each in self._candidates if each in loads]
            for kind in (True, False) if candidates else ():
                for place, item in enumerate(_of_kind(lost, kind)):
                    loads[candidates[place % len(candidates)]][item] = None
            self._reset_delay()
            self._revoked_in_previous = False
            return {} if candidates else lost
        self._candidates |= dict.fromkeys([each for each, has in loads.items() if not has])
        left_ms = self._scheduled_ms - now_ms
        self.delay_ms = min(left_ms, self._max_delay_ms) if left_ms > 0 else self._max_delay_ms
        self._scheduled_ms = now_ms + self.delay_ms
        return {}

    def _reset_delay(self) -> None:
        self._candidates = {}
        self._scheduled_ms = 0
        self.delay_ms = 0


def _without(items: Items, *others: Items) -> Items:
    """Return the items that none of the others has, in their order."""
    return {item: None for item in items if not any(item in other for other in others)}


def _surplus(wanted: Items, loads: Loads) -> dict[str, list[Work]]:
    """Return what workers have above an even share (performLoadBalancingRevocations)."""
    if not wanted or not any(loads.values()):
        return {}
    found: dict[str, list[Work]] = {}
    for connectors in (True, False):
        total = sum((item.task == CONNECTOR) is connectors for item in wanted)
        for member, items in _surplus_of(total, loads, connectors).items():
            found.setdefault(member, []).extend(items)
    return found


def _surplus_of(total: int, loads: Loads, connectors: bool) -> dict[str, list[Work]]:
    """Return the same of one kind (loadBalancingRevocations)."""
    least, extras = divmod(total, len(loads))
    has = {each: _of_kind(items, connectors) for each, items in loads.items()}
    sizes = Counter([len(items) for items in has.values()])
    if sizes[least + 1] == extras and sizes[least] + sizes[least + 1] == len(loads):
        return {}
    found = {}
    for member, items in has.items():
        if len(items) <= least:
            continue
        most = least
        if extras:
            extras -= 1
            most = least + 1
        if len(items) > most:
            found[member] = items[: len(items) - most]
    return found


def _spread(loads: Loads, items: list[Work], connectors: bool) -> None:
    """Give items to the workers that have the least of their kind (assignConnectors, assignTasks).

    One goes to each of those with as few as the first, then they are counted again.
    """
    order = sorted(loads, key=lambda each: (len(_of_kind(loads[each], connectors)), each))
    left = iter(items)
    item = next(left, None)
    while item is not None:
        sizes = [len(_of_kind(loads[each], connectors)) for each in order]
        up_to = next((i for i, size in enumerate(sizes) if size > sizes[0]), len(order))
        for member in order[:up_to]:
            if item is not None:
                loads[member][item] = None
                item = next(left, None)


def _of_kind(items: Items, connectors: bool) -> list[Work]:
    return [item for item in items if (item.task == CONNECTOR) is connectors]
