"""Share groups (KIP-932): what leaders hand out, and what became of it, for both judges.

Cases are stories at one instant, in which a number in the place of a fact lets seconds pass.
``SHARE_EXCUSES`` adds what a legal loss explains, and what it does not.
"""

from __future__ import annotations

from kafkasim.model import facts
from tests.analysis.analysis_rows import Case, T, appended, final, marker
from tests.scenarios.transaction_cases import OFFSETS, Losses, loss

STATES = ("share-states", 0)
STATE_TOPIC = ("controller-1",
               facts.TopicCreated(2, "share-states", "__share_group_state", 1, 3, 2))  # fmt: skip
GROUP_TOPIC = ("controller-1",
               facts.TopicCreated(3, "offsets-id", "__consumer_offsets", 1, 3, 1))  # fmt: skip
NAMED = ("controller-1", facts.TopicCreated(1, T, "orders", 2, 3, 1))
LOCK_US = 30_000_000


def loaded(
    start: int, broker: int = 1, epoch: int = 1, state: int = 0
) -> tuple[str, facts.SharePartitionLoaded]:
    """A leader has read the persisted state."""
    return (f"broker-{broker}", facts.SharePartitionLoaded("g", T, 0, epoch, state, start))


def given(
    first: int, last: int, count: int = 1, *, to: str = "m1", broker: int = 1, epoch: int = 1
) -> tuple[str, facts.ShareAcquired]:
    """A leader gives records to a member."""
    fact = facts.ShareAcquired("g", to, T, 0, epoch, first, last, count, LOCK_US)
    return (f"broker-{broker}", fact)


def moved(
    first: int, last: int, state: str, reason: str = "acknowledged", *, of: str = "m1",
    broker: int = 1, epoch: int = 1,
) -> tuple[str, facts.ShareMoved]:  # fmt: skip
    """A leader changes the state of records."""
    fact = facts.ShareMoved("g", of, T, 0, epoch, first, last, state, 1, reason)
    return (f"broker-{broker}", fact)


def started(
    offset: int, reason: str = "records", broker: int = 1, epoch: int = 1
) -> tuple[str, facts.ShareStartMoved]:
    """A leader moves the start of the share partition."""
    return (f"broker-{broker}", facts.ShareStartMoved("g", T, 0, epoch, offset, reason))


def told(
    offsets: tuple[int, ...], *types: int, error: str = "NONE"
) -> tuple[str, facts.ShareAcknowledged]:
    """A member hears what became of its acknowledgements."""
    return ("consumer-1", facts.ShareAcknowledged("g", "m1", T, 0, offsets, types, error))


def coordinates(broker: int = 3) -> tuple[str, facts.CoordinatorLoaded]:
    """A broker has loaded the partition of __consumer_offsets that has the group."""
    return (f"broker-{broker}", facts.CoordinatorLoaded(0, 1, True))


def assigns(
    partition: str = "orders-0", broker: int = 3, epoch: int = 1
) -> tuple[str, facts.ShareGroupAssigned]:
    """A coordinator tells a member of the group what to consume."""
    return (f"broker-{broker}", facts.ShareGroupAssigned("g", epoch, "m1", (partition,)))


def wrote(base: int, broker: int = 3, count: int = 1) -> tuple[str, facts.Appended]:
    """A share coordinator appends records of the group's states."""
    appended = facts.Appended("share-states", 0, 0, base, base + count, -1, -1, -1, ())
    return (f"broker-{broker}", appended)


def initialized(
    offset: int, epoch: int = 0, start: int = -1
) -> tuple[str, facts.ShareStateInitialized]:
    """The share coordinator begins the state anew, in a record at an offset."""
    return ("broker-3", facts.ShareStateInitialized("g", T, 0, epoch, start, offset))


def pause(seconds: float) -> tuple[str, float]:
    """Time passes."""
    return ("", seconds)


DELETED = ("broker-1", facts.ShareGroupState("g", "Dead", 0, (), "deleted"))
AGAIN, TWICE = {"accepted-again": 1}, {"held-twice": 1}
OVER, SKIPPED = {"over-delivered": 1}, {"share-skipped": 1}
OTHER = {"broker": 2, "epoch": 2}

BEGUN = [STATE_TOPIC, loaded(0), given(0, 2)]  # rows 0 to 2
ACCEPTED = [*BEGUN, moved(0, 2, "ACKNOWLEDGED"), wrote(5), told((0, 1, 2), 1, 1, 1)]  # to row 5
RELEASED = [*BEGUN, moved(0, 2, "AVAILABLE")]
LOG = final(1, 100, 101, 102, leading=True)
EXPIRED = [moved(0, 0, "AVAILABLE", "lock-expired"), pause(30)]
FOUR = [fact for count in (1, 2, 3, 4) for fact in (given(0, 0, count), *EXPIRED)]
ABORTED = [appended(0, 1), *marker(1, False), appended(2, 3), *marker(3, True), STATE_TOPIC,
           loaded(0), moved(0, 0, "ARCHIVED", "aborted"), given(2, 2),
           moved(2, 2, "ACKNOWLEDGED"), started(4)]  # fmt: skip

SHARE_CASES: dict[str, tuple[Case, dict[str, int]]] = {
    "share: accepted": ([*ACCEPTED, started(3), LOG], {}),
    "share: accepted, and given out again": ([*ACCEPTED, given(1, 1, 2)], AGAIN),
    "share: rejected, and given out again by the next leader": (
        [*BEGUN, moved(1, 1, "ARCHIVED"), told((1,), 3), loaded(0, 2, 2), given(1, 1, 1, **OTHER)],
        AGAIN),
    "share: accepted by the next leader, and given out by the deposed one": (
        [*BEGUN, loaded(0, 2, 2), given(0, 2, 1, **OTHER),
         moved(0, 2, "ACKNOWLEDGED", **OTHER), told((0, 1, 2), 1, 1, 1), pause(30),
         given(0, 2, 2)], {}),
    "share: accepted from the deposed leader, and given out by the next one": (
        [*BEGUN, loaded(0, 2, 2), moved(0, 2, "ACKNOWLEDGED"), told((0, 1, 2), 1, 1, 1),
         pause(30), given(0, 2, 1, **OTHER)], AGAIN),
    "share: accepted, but the answer was lost": (
        [*BEGUN, moved(0, 2, "ACKNOWLEDGED"), loaded(0, 2, 2), given(0, 2, 1, **OTHER)], {}),
    "share: refused, and given out again": (
        [*BEGUN, told((0,), 1, error="NOT_LEADER_OR_FOLLOWER"), loaded(0, 2, 2),
         given(0, 0, 1, **OTHER)], {}),
    "share: released, and given out again": (
        [*RELEASED, told((0, 1, 2), 2, 2, 2), given(0, 2, 2, to="m2")], {}),
    "share: accepted before the group was deleted": (
        [*ACCEPTED, DELETED, loaded(0), given(0, 2)], {}),
    "share: accepted again after the group was deleted": (
        [*ACCEPTED, DELETED, loaded(0), given(0, 2), moved(0, 2, "ACKNOWLEDGED"),
         told((0, 1, 2), 1, 1, 1), given(2, 2, 2)], AGAIN),

    "share: held by another one": ([*BEGUN, pause(29), given(1, 1, 2, to="m2")], TWICE),
    "share: held until its lock expires": ([*BEGUN, pause(30), given(1, 1, 2, to="m2")], {}),
    "share: held in the memory of the former leader": (
        [*BEGUN, loaded(0, 2, 2), given(0, 2, 1, to="m2", **OTHER)], {}),
    "share: held, and the leader reads the state again": (
        [*BEGUN, loaded(0), given(0, 2, 1, to="m2")], {}),
    "share: two leaders give it out at once": (
        [*BEGUN, loaded(3, 2, 2), moved(0, 0, "AVAILABLE"), given(0, 0, 2, to="m2"),
         given(0, 0, 3, to="m3")], TWICE),
    "share: released, but the write failed": (
        [*RELEASED, moved(0, 2, "ACQUIRED", "rolled-back"), given(0, 0, 2, to="m2")], TWICE),
    "share: released, but the write failed after the lock had ended": (
        [*RELEASED, pause(30), moved(0, 2, "ACQUIRED", "rolled-back"), given(0, 0, 2, to="m2")],
        {}),
    "share: given out while its release is written, then released by another": (
        [*RELEASED, given(0, 0, 2, to="m2"), moved(0, 0, "AVAILABLE", "lock-expired"),
         given(0, 0, 3, to="m3")], TWICE),
    "share: a write of the forgotten state fails": (
        [*RELEASED, loaded(0), given(0, 2, 2, to="m2"), moved(0, 2, "AVAILABLE", of="m2"),
         moved(0, 2, "ACQUIRED", "rolled-back"), given(0, 2, 3, to="m3")], {}),

    "share: delivered five times": (
        [STATE_TOPIC, loaded(0), *FOUR, given(0, 0, 5), moved(0, 0, "ARCHIVED"), started(1),
         final(1, 100, leading=True)], {}),
    "share: delivered six times": (
        [STATE_TOPIC, loaded(0), *FOUR, given(0, 0, 5), moved(0, 0, "AVAILABLE"), given(0, 0, 6)],
        OVER),
    "share: delivered six times, and the leader does not count": (
        [STATE_TOPIC, loaded(0), *FOUR, given(0, 0, 4), moved(0, 0, "AVAILABLE"), given(0, 0, 4)],
        OVER),
    "share: delivered six times, by the persisted count": (
        [STATE_TOPIC, loaded(0), given(0, 0, 6)], OVER),
    "share: delivered six times, once taken back with a session": (
        [STATE_TOPIC, loaded(0), *FOUR, given(0, 0, 5),
         moved(0, 0, "AVAILABLE", "session-ended"), given(0, 0, 5)], {}),

    "share: skipped while held": ([*BEGUN, started(1), LOG], SKIPPED),
    "share: skipped once a cleaner had removed it": (
        [*BEGUN, ("broker-1", facts.Cleaned(T, 0, 0, 2, 0, 2, 5, 1000, (0, 1))), started(1), LOG],
        {}),
    "share: skipped before a cleaner removed it": (
        [*BEGUN, started(1), ("broker-1", facts.Cleaned(T, 0, 0, 2, 0, 2, 5, 1000, (0, 1))), LOG],
        SKIPPED),
    "share: skipped behind what a cleaner had removed": (
        [*BEGUN, ("broker-1", facts.Cleaned(T, 0, 0, 2, 0, 2, 5, 1000, (1, 2))), started(1), LOG],
        SKIPPED),
    "share: skipped after a release": ([*RELEASED, started(1), LOG], SKIPPED),
    "share: skipped by the next leader": ([*ACCEPTED[:-1], loaded(3, 2, 2), LOG], {}),
    "share: skipped by the next leader, without an end": (
        [*BEGUN, moved(1, 2, "ACKNOWLEDGED"), told((1, 2), 1, 1), loaded(1, 2, 2), LOG], SKIPPED),
    "share: skipped by the next leader, before a state was written": (
        [*BEGUN, told((1, 2), 1, 1, error="NOT_LEADER_OR_FOLLOWER"), loaded(1, 2, 2), LOG], {}),
    "share: accepted, but the write failed": (
        [*BEGUN, moved(0, 2, "ACKNOWLEDGED"), moved(0, 2, "ACQUIRED", "rolled-back"),
         loaded(3, 2, 2), LOG], {}),
    "share: before the group's start": ([STATE_TOPIC, loaded(3), given(3, 3), LOG], {}),
    "share: gone from the log": ([*BEGUN, started(3, "log-start"), LOG], {}),
    "share: above the start that the log has": ([*BEGUN, started(1, "log-start"), started(2), LOG],
                                               SKIPPED),
    "share: skipped before the group was deleted": (
        [*BEGUN, started(2), DELETED, loaded(3), given(3, 3), LOG], {}),
    "share: done before the group was deleted, then skipped": (
        [*ACCEPTED, DELETED, loaded(0), given(0, 0), moved(0, 0, "ACKNOWLEDGED"), started(2), LOG],
        SKIPPED),
    "share: aborted": ([*ABORTED, final(1, 100, -1, 102, -1, leading=True)], {}),
    "share: archived as aborted, but committed": (
        [appended(0, 1), *marker(1, True), STATE_TOPIC, loaded(0),
         moved(0, 0, "ARCHIVED", "aborted"), given(2, 2), moved(2, 2, "ACKNOWLEDGED"), started(3),
         final(1, 100, -1, 102, leading=True)], SKIPPED),
    "share: aborted, but skipped without a look": (
        [each for each in ABORTED if "aborted" not in repr(each)]
        + [final(1, 100, -1, 102, -1, leading=True)], SKIPPED),
}  # fmt: skip

Excused = tuple[Case, dict[str, int], Losses, Losses]
"""A case, what it shows, the losses of which each explains it, and those of which none does."""

ANEW = [*BEGUN, moved(1, 2, "ACKNOWLEDGED"), wrote(5), told((1, 2), 1, 1), loaded(2, 2, 2), LOG]

SHARE_EXCUSES: dict[str, Excused] = {
    "share: accepted, and given out again by the next leader": (
        [*ACCEPTED, loaded(0, 2, 2), given(1, 1, 1, **OTHER)], AGAIN,
        [(STATES, loss(seq=6))],
        [(STATES, loss(seq=8)), (OFFSETS, loss(seq=6)), ((T, 0), loss(0, 1)),
         (("share-states", 1), loss(seq=6)), (STATES, loss(seq=6, reason="unclean-election"))]),
    "share: the next leader begins anew": (
        ANEW, SKIPPED,
        [(STATES, loss(seq=5))],
        [(STATES, loss(seq=7)), ((T, 0), loss(1, 2, seq=5)),
         (STATES, loss(seq=5, reason="unclean-election"))]),
    "share: accepted, then initialized again": (
        [GROUP_TOPIC, *ACCEPTED, loaded(0), given(1, 1)], AGAIN,
        [(OFFSETS, loss(seq=1)), (OFFSETS, loss(seq=6))],
        [(OFFSETS, loss(seq=9)), (("offsets-id", 1), loss(seq=6))]),
    "share: held by another one": (
        [*BEGUN, given(1, 1, 2, to="m2")], TWICE, [], [(STATES, loss()), ((T, 0), loss())]),
    "share: delivered six times": (
        [STATE_TOPIC, loaded(0), given(0, 0, 6)], OVER,
        [], [(STATES, loss()), ((T, 0), loss())]),
}  # fmt: skip

EXPIRED_LAST = moved(1, 1, "ARCHIVED", "lock-expired")
PASSED = [*BEGUN, moved(0, 0, "ACKNOWLEDGED"), EXPIRED_LAST, started(2), told((0,), 1)]
UNWRITTEN_END = [*PASSED, told((1,), 1)]
AGAIN_1 = given(1, 1, 2, **OTHER)
RESET = ("broker-3", facts.HoleEntered("late-initialization", T, 0, "g"))
ELSEWHERE = ("broker-3", facts.HoleEntered("late-initialization", T, 1, "g"))

SHARE_HOLES: dict[str, tuple[Case, str]] = {
    "share: expired, passed and accepted, then given out by the next leader": (
        [*UNWRITTEN_END, loaded(1, 2, 2), AGAIN_1], "unwritten-end"),
    "share: expired and passed, and the leader reads the older state again": (
        [*UNWRITTEN_END, loaded(1), given(1, 1, 2)], "unwritten-end"),
    "share: expired and passed, but the same leader gives it out": (
        [*UNWRITTEN_END, given(1, 1, 2)], ""),
    "share: accepted and passed": (
        [*BEGUN, moved(0, 1, "ACKNOWLEDGED"), started(2), told((1,), 1), loaded(1, 2, 2), AGAIN_1],
        ""),
    "share: accepted, then initialized late": (
        [*ACCEPTED, RESET, loaded(0, 2, 2), AGAIN_1], "late-initialization"),
    "share: accepted, and another partition was initialized late": (
        [*ACCEPTED, ELSEWHERE, loaded(0, 2, 2), AGAIN_1], ""),
}  # fmt: skip
"""What a hole covers, and what it does not: each shows ``accepted-again``."""

SHARE_LOSSES: dict[str, tuple[Case, Losses, dict[str, int]]] = {
    "share: another record, whose offset was lost": (
        [*ACCEPTED, loaded(0, 2, 2), given(1, 1, 1, **OTHER)], [((T, 0), loss(1, 9, seq=6))], {}),
    "share: another record, by an unclean election": (
        [*ACCEPTED, loaded(0, 2, 2), given(1, 1, 1, **OTHER)],
        [((T, 0), loss(1, 9, seq=6, reason="unclean-election"))], {}),
    "share: another record, that was accepted and is given out again": (
        [*ACCEPTED, loaded(0, 2, 2), given(1, 1, 1, **OTHER), told((1,), 1),
         given(1, 1, 2, **OTHER)], [((T, 0), loss(1, 9, seq=6))], {**AGAIN, **TWICE}),
    "share: the record of before a loss": (
        [*ACCEPTED, given(1, 1, 2)], [((T, 0), loss(1, 9, seq=3))], AGAIN),
    "share: skipped where the record was lost": (
        ANEW, [((T, 0), loss(0, 1, seq=4))], {}),
    "share: skipped, and lost later": (
        ANEW, [((T, 0), loss(0, 1, seq=7))], SKIPPED),
}  # fmt: skip
"""A case, what the run has legally lost, and what remains."""
