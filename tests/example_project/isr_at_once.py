"""A rule of your own: `kafkasim search --variant isr_at_once.py` looks for what it breaks."""

from kafkasim.model.replication.partitions.remote_replica import RemoteReplica
from kafkasim.model.replication.rules import LeaderView, ReplicationRules


class JoinsAtOnce(ReplicationRules):
    """A follower joins the ISR with its first fetch, however far it is behind."""

    def may_join_isr(self, leader: LeaderView, remote: RemoteReplica) -> bool:
        return self.is_eligible(leader, remote)
