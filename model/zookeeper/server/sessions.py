"""When sessions expire (SessionTrackerImpl, ExpiryQueue), and the facts about them.

The leader alone tracks sessions. It gathers their deadlines by tick: a session that nobody touched
for its timeout expires at the end of the tick in which the timeout ran out, together with all
others of that tick. The tracker starts anew with each leader, so after an election every session
has its full timeout again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkasim.model.facts import ZooKeeperSession
from kafkasim.model.zookeeper.rules import ZooKeeperRules


class SessionTrace:
    """Writes :class:`ZooKeeperSession` facts; ``addresses`` is server number to address."""

    def __init__(self, out: list[Any], addresses: Mapping[int, str]) -> None:
        self._out = out
        self._addresses = addresses

    def record(
        self, session_id: int, event: str, client: str, server_id: int | None, zxid: int
    ) -> None:
        """Record what became of a session.

        ``server_id`` is the server where it is attached, None if that is unknown; ``zxid`` is the
        record's, −1 for an event without one.
        """
        address = "" if server_id is None else self._addresses[server_id]
        self._out.append(ZooKeeperSession(session_id, event, client, address, zxid))

    def record_expiring(
        self, session_id: int, client: str, session: TrackedSession, now: int
    ) -> None:
        """Record that the end of a session is proposed, and how long nobody had touched it."""
        address = "" if session.owner is None else self._addresses[session.owner]
        silent_us = now - session.touched_us
        self._out.append(
            ZooKeeperSession(
                session_id, "expiring", client, address, -1, silent_us, session.timeout_us
            )
        )


class TrackedSession:
    """One session that is open as far as the leader has applied the log."""

    __slots__ = ("deadline", "is_closing", "owner", "timeout_us", "touched_us")

    def __init__(self, timeout_us: int, deadline: int, now: int) -> None:
        self.timeout_us = timeout_us
        self.touched_us = now
        self.deadline = deadline  # the end of the tick in which it expires
        self.owner: int | None = None  # the server where this leader last saw it attached
        self.is_closing = False  # its end is proposed; nothing prolongs it any more


class SessionTracker:
    """All open sessions, by the tick in which they expire unless somebody touches them."""

    def __init__(self, rules: ZooKeeperRules, tick_us: int) -> None:
        self.rules = rules
        self.tick_us = tick_us
        self.sessions: dict[int, TrackedSession] = {}
        self._buckets: dict[int, dict[int, None]] = {}  # end of a tick -> sessions

    def add(self, session_id: int, timeout_ms: int, now: int) -> None:
        """Track a new session; its timeout starts now."""
        timeout_us = timeout_ms * 1000
        deadline = self.rules.session_deadline_us(now, timeout_us, self.tick_us)
        self.sessions[session_id] = TrackedSession(timeout_us, deadline, now)
        self._buckets.setdefault(deadline, {})[session_id] = None

    def touch(self, session_id: int, now: int) -> bool:
        """Let a session's timeout start anew; return whether the session is open."""
        session = self.sessions.get(session_id)
        if session is None or session.is_closing:
            return False
        session.touched_us = now
        deadline = self.rules.session_deadline_us(now, session.timeout_us, self.tick_us)
        if deadline > session.deadline:
            self._leave_bucket(session_id, session)
            session.deadline = deadline
            self._buckets.setdefault(deadline, {})[session_id] = None
        return True

    def close(self, session_id: int) -> bool:
        """Stop prolonging a session whose end is proposed; return whether it was open until now."""
        session = self.sessions.get(session_id)
        if session is None or session.is_closing:
            return False
        session.is_closing = True
        return True

    def remove(self, session_id: int) -> None:
        """Forget a session whose end is applied."""
        session = self.sessions.pop(session_id, None)
        if session is not None:
            self._leave_bucket(session_id, session)

    def expired(self, now: int) -> list[int]:
        """Close the sessions whose tick has ended; return their ids, the longest overdue first."""
        due = sorted(deadline for deadline in self._buckets if deadline <= now)
        return [
            session_id
            for deadline in due
            for session_id in list(self._buckets[deadline])
            if self.close(session_id)
        ]

    def _leave_bucket(self, session_id: int, session: TrackedSession) -> None:
        bucket = self._buckets.get(session.deadline)
        if bucket is not None:
            bucket.pop(session_id, None)
            if not bucket:
                del self._buckets[session.deadline]
