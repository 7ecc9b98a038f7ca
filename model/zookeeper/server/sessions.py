"""The leader's clock of the sessions (SessionTrackerImpl, ExpiryQueue).

A session that is not touched for its timeout expires at the end of the tick in which that is so:
all that end in one tick expire together. The clock lives in the leader alone and starts anew with
it: after an election every session has its full timeout again.
"""

from __future__ import annotations

from kafkasim.model.zookeeper.rules import ZooKeeperRules


class TrackedSession:
    """One session: ``owner`` is the server where this leader last saw it attached."""

    __slots__ = ("closing", "deadline", "owner", "timeout_us")

    def __init__(self, timeout_us: int, deadline: int) -> None:
        self.timeout_us = timeout_us
        self.deadline = deadline
        self.owner: int | None = None
        self.closing = False


class SessionTracker:
    """All open sessions, by the tick in which they expire unless touched."""

    def __init__(self, rules: ZooKeeperRules, tick_us: int) -> None:
        self.rules = rules
        self.tick_us = tick_us
        self.sessions: dict[int, TrackedSession] = {}
        self._buckets: dict[int, dict[int, None]] = {}  # end of a tick -> sessions

    def add(self, session_id: int, timeout_ms: int, now: int) -> None:
        """Begin to track a session."""
        timeout_us = timeout_ms * 1000
        deadline = self.rules.session_deadline_us(now, timeout_us, self.tick_us)
        self.sessions[session_id] = TrackedSession(timeout_us, deadline)
        self._buckets.setdefault(deadline, {})[session_id] = None

    def touch(self, session_id: int, now: int) -> bool:
        """Note a sign of life; return whether the session is open."""
        session = self.sessions.get(session_id)
        if session is None or session.closing:
            return False
        deadline = self.rules.session_deadline_us(now, session.timeout_us, self.tick_us)
        if deadline > session.deadline:
            self._leave_bucket(session_id, session)
            session.deadline = deadline
            self._buckets.setdefault(deadline, {})[session_id] = None
        return True

    def close(self, session_id: int) -> bool:
        """Let nothing touch a session any more; return whether it was open till now."""
        session = self.sessions.get(session_id)
        if session is None or session.closing:
            return False
        session.closing = True
        return True

    def remove(self, session_id: int) -> None:
        """Forget a session whose end is committed."""
        session = self.sessions.pop(session_id, None)
        if session is not None:
            self._leave_bucket(session_id, session)

    def expired(self, now: int) -> list[int]:
        """Return the sessions whose tick has ended and close them, the longest overdue first."""
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
