"""Who waits for what since when, when a healed cluster should have nothing more to do."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kafkasim.model import facts

DOWN, FENCED = "process", "unfencing"
LEADERLESS, NOT_LED, SHORT = "leader", "leadership", "isr"
OPEN, SENDS, RECORD, POLL = "marker", "answers", "record", "commit-of-poll"
READ, COMMIT, SHARES, OWNER, BOOT = "records", "commit", "shares", "owner", "boot"
MIRROR = "mirror"

_SENTENCES = {
    DOWN: "{host} is down",
    FENCED: "{host} is not unfenced since it started",
    LEADERLESS: "{name} has no leader",
    NOT_LED: "{name}: {host} does not lead epoch {end} yet",
    SHORT: "{name}: {detail}",
    OPEN: "{name} has an open transaction of producer id {producer_id} from offset {offset} on",
    SENDS: "{host} has records that are neither acknowledged nor failed",
    RECORD: "{detail}",
    POLL: "{host} handles what it was given",
    READ: "group {group} is at {offset} of {end} in {name} ({detail})",
    COMMIT: "group {group} was given records below {end} of {name} and has committed {offset}",
    SHARES: "share group {group} is at {offset} of {end} in {name}",
    OWNER: "{name} has no owner in group {group}",
    BOOT: "{detail}",
    MIRROR: "{detail}",
}


@dataclass(frozen=True, slots=True)
class Wait:
    """One thing that a healed cluster still lacks; "" and −1 stand for what does not concern it."""

    what: str  # one of the constants above: what is waited for
    host: str = ""
    topic_id: str = ""
    partition: int = -1
    name: str = ""  # topic-partition
    group: str = ""
    producer_id: int = -1
    offset: int = -1  # where the group is, or the transaction began
    end: int = -1  # up to which offset there is something to do; the leader epoch
    detail: str = ""  # what a partition, an application or a mirror says of itself
    since_us: int = -1  # when it was first seen in the healed cluster, in µs

    def __str__(self) -> str:
        values = {name: getattr(self, name) for name in self.__slots__}
        return _SENTENCES[self.what].format(**values)

    @property
    def key(self) -> tuple[str, int]:
        """The partition, as topic id and number."""
        return self.topic_id, self.partition

    def fact(self, now_us: int) -> facts.Waiting:
        """Return the fact that records the wait at the end of a run."""
        of = self.what, self.host, *self.key, self.group, self.producer_id
        return facts.Waiting(*of, self.offset, self.end, self.detail, now_us - self.since_us)

    def identity(self) -> Wait:
        """Return what stays the same while the same thing is waited for."""
        return replace(self, offset=-1, end=-1, detail="", since_us=-1)
