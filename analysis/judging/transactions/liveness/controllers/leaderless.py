"""Stalls behind a partition that nobody will lead until an operator acts.

A ZooKeeper controller lost the answer to its write of a partition's first state. It finds the znode
when it tries again, takes NODEEXISTS for an error, and tells no broker of the partition
(PartitionStateMachine.initializeLeaderAndIsrForPartitions). The next controller that is elected
reads the state and does. Until then metadata does not name the partition.

A new min.insync.replicas clears the ELR and the last known leader of every partition that it
concerns (ConfigurationControlManager.createClearElrRecordsAsNeeded), without a look at its leader
(ReplicationControlManager.removeTopicElrs). If all members have left the ISR before that, the
controller knows nobody who has the records: PartitionChangeBuilder.electAnyLeader finds no leader
but by an unclean election, which the settings have to allow or an operator has to ask for. A
partition whose settings allow one when its ELR is cleared, or later, has no excuse.

Without ELR nobody notes who led a partition, and a leader that leaves by controlled shutdown may
leave itself in the ISR. When an operator turns ELR on afterwards
(eligible.leader.replicas.version 1), the members that the ISR and ELR lose later had the records,
but the last known leader is nobody: PartitionChangeBuilder.maybeUpdateLastKnownLeader notes the
leader that a partition loses, and this one had none. Equal in 4.0.0, 4.1.0 (which notes -1) and
4.2.0.

All members of an ISR and ELR have given up their registration and ended (``registrations.py``), or
do not find the active controller any more (``unlisted_leader.py``). The controller knows who has
the records, and none of them comes back.

So wait for ever:

- a group whose partition of ``__consumer_offsets`` it is;
- a producer whose transactional id has its partition of ``__transaction_state`` there:
  initTransactions never returns;
- a group of processors all of which wait so, because they subscribe afterwards;
- a share group whose partition of ``__consumer_offsets`` or ``__share_group_state`` it is.

Of a partition that has had a leader also, as metadata names it and it may have records:

- a group or share group that has not read them, and whoever waits for the end of a transaction
  there;
- a client whose transaction is decided (``coordinators/decisions.py``) and lacks that partition's
  marker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from kafkasim.analysis.judging.invariants.traced import coordinator_partition, offsets_partition
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey, Waits
from kafkasim.analysis.judging.transactions.liveness.controllers.lost_answers import LOST_ANSWER
from kafkasim.analysis.judging.transactions.liveness.coordinators.decisions import Decisions
from kafkasim.analysis.judging.transactions.liveness.shares.homes import share_homes
from kafkasim.analysis.judging.transactions.liveness.shares.leaders import SHARES
from kafkasim.model import facts
from kafkasim.model.records import TRANSACTION_STATE_TOPIC

CLEARED_ELR = "cleared-elr"
UNKNOWN_LEADER = "last-leader-unknown"
_ELR_ON = "eligible.leader.replicas.version = 1"
UNCLEAN = "unclean.leader.election.enable"

_GROUP = re.compile(r"group (\S+) is at \d+ of \d+ in (\S+) \(last read by (\S+)\)$")
_CLIENT = re.compile(r"(\S+) (?:has records that are neither|handles what it was given)")
_PARTITION = re.compile(r"(\S+) (?:has no leader$|has an open transaction of producer id )")


class Leaderless:
    """Follows the creation of partitions, the ELRs that operators clear, and who could lead.

    ``ids`` are the transactional ids of client hosts, and ``members`` the hosts of each group.
    ``unclean`` says whether the servers' files allow unclean elections, and ``judges`` know which
    brokers do not come back.
    """

    def __init__(
        self,
        trace: FactSource,
        ids: Mapping[str, str],
        members: Mapping[str, Sequence[str]],
        unclean: bool = False,
        judges: Sequence[Waits] = (),
    ) -> None:
        self._ids = ids
        self._members = members
        self._unclean_of_files = unclean
        self._topics: dict[str, facts.TopicCreated] = {}
        self._created: dict[str, int] = {}  # topic id -> the row of its creation
        self._connected: dict[str, int] = {}  # node -> the row of its last connection
        self._judges = judges
        self._leaderless: dict[PartitionKey, str] = {}  # why nobody leads it
        self._awaited: dict[PartitionKey, tuple[int, ...]] = {}  # whom a leaderless one waits for
        self._unnoted: dict[PartitionKey, bool] = {}  # leader lost; whether ELR was turned on since
        self._epochs: dict[PartitionKey, int] = {}  # the partition epoch of the last change
        self._configured: dict[str, tuple[str, int]] = {}  # resource -> its last new minimum
        self._unclean: dict[str, tuple[int, str | None]] = {}  # resource -> (offset, last setting)
        self._decisions = Decisions(trace)
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.TopicDeleted, self._on_topic_deleted)
        trace.subscribe(facts.ConfigChanged, self._on_config)
        trace.subscribe(facts.Operated, self._on_operated)
        trace.subscribe(facts.PartitionChanged, self._on_partition)
        trace.subscribe(facts.ZooKeeperConnection, self._on_connection)
        trace.subscribe(facts.StateChangeFailed, self._on_failed)

    def excuse(self, line: str) -> str:
        """Return why Kafka would miss for ever what a line of a stalled run tells of, or ""."""
        self._give_up()
        if not self._leaderless:
            return ""
        group, client, partition = _GROUP.match(line), _CLIENT.match(line), _PARTITION.match(line)
        shares = SHARES.match(line)
        if partition is not None:
            return self._of(partition[1])
        if shares is not None:
            return self._of_shares(shares[1], shares[4], int(shares[5]))
        if group is not None:
            return self._of(group[2]) or self._of_group(group[1]) or self._of_marker(group[3])
        if client is not None:
            return self._of_beginning(client[1]) or self._of_marker(client[1])
        return ""

    def _give_up(self) -> None:
        """Note the partitions all of whose possible leaders have given up their registration."""
        for key, brokers in self._awaited.items():
            told = [self._given_up(broker) for broker in brokers]
            if all(told) and not self._allows_unclean(self._topics[key[0]].topic):
                self._leaderless[key] = told[0]

    def _given_up(self, broker: int) -> str:
        """Return why a broker is down or fenced for ever, or ""."""
        lines = (f"broker-{broker} is down", f"broker-{broker} is not unfenced since it started")
        told = (judge.excuse(line) for judge in self._judges for line in lines)
        return next((why for why in told if why), "")

    def _of(self, name: str) -> str:
        """Return why nobody leads a partition, by its name, if brokers know of it."""
        for key, why in self._leaderless.items():
            if why != LOST_ANSWER and name == f"{self._topics[key[0]].topic}-{key[1]}":
                return why
        return ""

    def _of_group(self, group: str) -> str:
        """Return why a group finds no coordinator, or has no member that reads."""
        home = offsets_partition(group, self._topics)
        members = [self._of_beginning(node) for node in self._members.get(group, ())]
        return self._leaderless.get(home, "") or (members[0] if members and all(members) else "")

    def _of_shares(self, group: str, topic: str, partition: int) -> str:
        """Return why a share group does not go on: nobody leads what it reads or rests on."""
        homes = share_homes(group, topic, partition, self._topics)
        stuck = [self._leaderless[home] for home in homes if home in self._leaderless]
        return self._of(f"{topic}-{partition}") or next(iter(stuck), "")

    def _of_beginning(self, node: str) -> str:
        """Return why a client waits for its first producer id."""
        if node not in self._ids:
            return ""
        home = coordinator_partition(TRANSACTION_STATE_TOPIC, self._ids[node], self._topics)
        return self._leaderless.get(home, "")

    def _of_marker(self, node: str) -> str:
        """Return why a client waits for the end of its transaction."""
        missing = self._decisions.of(self._ids.get(node, ""))
        return next((why for name in missing if (why := self._of(name))), "")

    def _on_topic(self, seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._topics.setdefault(fact.topic_id, fact)
        self._created.setdefault(fact.topic_id, seq)

    def _on_topic_deleted(self, _seq: int, _t: int, _node: str, fact: facts.TopicDeleted) -> None:
        for known in (self._leaderless, self._awaited, self._unnoted):
            for key in [key for key in known if key[0] == fact.topic_id]:
                del known[key]

    def _on_config(self, _seq: int, t_us: int, node: str, fact: facts.ConfigChanged) -> None:
        if fact.config == "min.insync.replicas":
            self._configured[fact.resource] = (node, t_us)
        if fact.config == UNCLEAN and fact.offset > self._unclean.get(fact.resource, (-1,))[0]:
            self._unclean[fact.resource] = (fact.offset, fact.value)
            for key, why in list(self._leaderless.items()):
                if why in (CLEARED_ELR, UNKNOWN_LEADER) and self._allows_unclean(
                    self._topics[key[0]].topic
                ):
                    del self._leaderless[key]  # it should get a leader now

    def _on_partition(self, _seq: int, t_us: int, node: str, fact: facts.PartitionChanged) -> None:
        """Forget a partition that may find a leader, and note one that has lost its ELR.

        A change that a new controller tells again is an old one."""
        key = (fact.topic_id, fact.partition)
        if fact.partition_epoch <= self._epochs.get(key, -1):
            return
        self._epochs[key] = fact.partition_epoch
        known = self._leaderless.pop(key, "")
        self._awaited.pop(key, None)
        if fact.leader == -1 and (fact.isr or fact.elr) and fact.topic_id in self._topics:
            self._awaited[key] = (*fact.isr, *fact.elr)
        turned_on = self._note_lost_leader(key, fact)
        if fact.leader != -1 or fact.isr or fact.elr or fact.last_known_elr:
            return
        if known == CLEARED_ELR or self._was_cleared(t_us, node, fact):
            self._leaderless[key] = CLEARED_ELR
        elif turned_on and not self._allows_unclean(self._topics[fact.topic_id].topic):
            self._leaderless[key] = UNKNOWN_LEADER

    def _note_lost_leader(self, key: PartitionKey, fact: facts.PartitionChanged) -> bool:
        """Follow a partition that has lost its leader with a member in the ISR, and noted nobody.

        Return whether an operator has turned ELR on since.
        """
        if fact.leader != -1 or fact.last_known_elr or fact.topic_id not in self._topics:
            self._unnoted.pop(key, None)
        elif fact.isr and not fact.elr:
            self._unnoted.setdefault(key, False)
        return self._unnoted.get(key, False)

    def _on_operated(self, _seq: int, _t: int, _node: str, fact: facts.Operated) -> None:
        """Note that the ELR is turned on; where it was on before, a lost leader was noted."""
        if (fact.operation, fact.reason, fact.error) == ("update-features", _ELR_ON, "NONE"):
            self._unnoted = dict.fromkeys(self._unnoted, True)

    def _was_cleared(self, t_us: int, node: str, fact: facts.PartitionChanged) -> bool:
        """Return whether a change clears the ELR, in the batch that changes the minimum."""
        if fact.reason != "min-isr" or fact.topic_id not in self._topics:
            return False
        topic = self._topics[fact.topic_id].topic
        minimum = (self._configured.get(each) for each in (f"topic:{topic}", "broker:"))
        return (node, t_us) in minimum and not self._allows_unclean(topic)

    def _allows_unclean(self, topic: str) -> bool:
        """Return whether the settings of now allow unclean elections of a topic.

        The topic's own comes first (ConfigurationControlManager.getTopicConfig). What is allowed to
        one broker is taken for allowed, whichever node is the controller.
        """
        told = {each: value for each, (_, value) in self._unclean.items() if value is not None}
        if f"topic:{topic}" in told:
            return told[f"topic:{topic}"] == "true"
        if any(value == "true" for each, value in told.items() if each.startswith("broker:")):
            return True
        return self._unclean_of_files and "broker:" not in told

    def _on_connection(self, seq: int, _t: int, node: str, fact: facts.ZooKeeperConnection) -> None:
        if fact.state == "CONNECTED":
            self._connected[node] = seq

    def _on_failed(self, _seq: int, _t: int, node: str, fact: facts.StateChangeFailed) -> None:
        """Suspect a lost answer: the controller connected again after it learned of the topic."""
        if fact.error == "NODEEXISTS":
            if self._connected.get(node, -1) > self._created.get(fact.topic_id, -1):
                self._leaderless[(fact.topic_id, fact.partition)] = LOST_ANSWER
