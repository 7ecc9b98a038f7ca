"""FENCEREASON: a broker is fenced for a silence of a whole session, or because it stops.

KRaft: a session lasts broker.session.timeout.ms from the last heartbeat that the active controller
received of this broker epoch, by the controller's clock. A new active controller begins all
sessions anew (BrokerHeartbeatManager). A pause of the controller delays what it hears and what it
decides alike, so it needs no excuse: what counts is what the controller had received. Besides the
end of its session a broker may be fenced when it asked for it (a controlled shutdown, a broker
that is not ready). It is unfenced by a heartbeat that asks for nothing.

The records that fence and unfence wait for the controllers' disks, while sessions go on to end and
heartbeats to arrive. But they are committed in the order of what caused them. So each is matched
with the earliest cause of its kind since the cause of the one before, and a fence that finds none
has no reason.

ZooKeeper: a session lasts its negotiated timeout from the last touch that the ensemble's leader
heard of, by the leader's clock; the tick of the touch is over first, so it may last a tick longer.
A new leader begins all sessions anew (SessionTrackerImpl). The controller may give up a broker only
when the session behind the broker's znode was closed or has expired: by a transaction that is
later than the one that created the znode.

The ensemble's leader tells a broker that its session has expired as soon as it has proposed that
(SessionTrackerImpl.touchSession returns False for a closing session, and
LearnerHandler.revalidateSession passes it on). If the leader is deposed before the transaction is
committed, the next one has the session still. The broker opens another one by then, and deletes the
znode of the former session itself (KafkaZkClient.CheckedEphemeral, KAFKA-7165). So a session that
the broker was told the end of is over once the broker's next session was created.
"""

from __future__ import annotations

from collections import defaultdict, deque

from kafkasim.analysis.judging.harm.truth.nodes import ROUNDING_US, Nodes
from kafkasim.analysis.judging.invariants.traced import TracedCluster
from kafkasim.model import facts

SESSION = "broker.session.timeout.ms"
ZK_SESSION = "zookeeper.session.timeout.ms"
NOWHERE = ("", -1)


class Causes:
    """What a controller heard of one broker epoch, and which of it has become a record.

    ``reasons`` are the rows of the ends of its sessions and of its wishes to be fenced, ``ready``
    those of its other heartbeats. No later than ``applied`` lies the cause of its last record.
    """

    def __init__(self) -> None:
        self.reasons: deque[int] = deque()
        self.ready: deque[int] = deque()
        self.applied = -1

    def unfence(self) -> None:
        """Match a record that unfences the broker; without a heartbeat it says nothing."""
        self.applied = self._next(self.ready)

    def fence(self) -> bool:
        """Match a record that fences the broker. Return False if nothing explains it."""
        before, self.applied = self.applied, self._next(self.reasons)
        return self.applied > before

    def _next(self, rows: deque[int]) -> int:
        """Return the first of ``rows`` since the cause of the last record, that cause if none."""
        while rows and rows[0] <= self.applied:
            rows.popleft()
        return rows[0] if rows else self.applied


class FenceReason:
    """Compares fences with the heartbeats that controllers, or ZooKeeper, had received."""

    def __init__(self, cluster: TracedCluster, nodes: Nodes) -> None:
        self.cluster = cluster
        self._nodes = nodes
        self._active: dict[str, int] = {}  # controller, or ensemble's leader -> since when
        self._heard: dict[tuple[str, int, int], int] = {}  # controller, broker, epoch -> when
        self._causes: defaultdict[tuple[int, int], Causes] = defaultdict(Causes)  # broker, epoch
        self._ended: dict[int, int] = {}  # broker -> zxid before which all its sessions are over
        self._offsets: dict[int, int] = {}  # broker -> its last registration seen
        self._touched: dict[tuple[str, int], int] = {}  # ensemble's leader, session -> when
        self._expiring: dict[int, None] = {}  # sessions whose end was proposed
        self._told: dict[int, bool] = {}  # broker -> whether it was told that of its last session
        self._session: dict[int, int] = {}  # broker -> zxid that created its last session
        trace = cluster.trace
        trace.subscribe(facts.ControllerActive, self._on_controller)
        trace.subscribe(facts.BrokerHeartbeat, self._on_heartbeat)
        trace.subscribe(facts.SessionEnded, self._on_session_ended)
        trace.subscribe(facts.BrokerRegistration, self._on_registration)
        trace.subscribe(facts.ZooKeeperRole, self._on_role)
        trace.subscribe(facts.ZooKeeperSession, self._on_zk_session)
        trace.subscribe(facts.ZooKeeperConnection, self._on_zk_connection)

    def _on_controller(self, _seq: int, t: int, node: str, fact: facts.ControllerActive) -> None:
        if fact.active:
            self._active[node] = t

    def _on_heartbeat(self, seq: int, t: int, node: str, fact: facts.BrokerHeartbeat) -> None:
        self._heard[node, fact.broker, fact.broker_epoch] = t
        causes = self._causes[fact.broker, fact.broker_epoch]
        asks = fact.want_fence or fact.want_shut_down
        (causes.reasons if asks else causes.ready).append(seq)

    def _on_session_ended(self, seq: int, t: int, node: str, fact: facts.SessionEnded) -> None:
        self._causes[fact.broker, fact.broker_epoch].reasons.append(seq)
        heard = self._heard.get((node, fact.broker, fact.broker_epoch), 0)
        since = max(heard, self._active.get(node, 0))
        limit = self._nodes.limit_us(node, SESSION)
        if limit is not None:
            self._judge(seq, t, node, f"broker {fact.broker}", since, limit, SESSION)

    def _judge(
        self, seq: int, t: int, node: str, who: str, since: int, limit: int, config: str
    ) -> None:
        silent = self._nodes.elapsed_us(node, since, t)
        if silent < limit - ROUNDING_US:
            self.cluster.violated(
                "FENCEREASON", seq, t, NOWHERE,
                f"{node} ends the session of {who} after a silence of {silent / 1e6:.3f} s;"
                f" {config} gives it {limit / 1e6:.3f} s",
            )  # fmt: skip

    def _on_registration(
        self, seq: int, t: int, _node: str, fact: facts.BrokerRegistration
    ) -> None:
        if fact.offset <= self._offsets.get(fact.broker, -1):
            return
        self._offsets[fact.broker] = fact.offset
        causes = self._causes[fact.broker, fact.broker_epoch]
        if fact.change == "unfenced":
            causes.unfence()
        elif fact.change == "fenced" and not (
            causes.fence() or self._ended.get(fact.broker, -1) > fact.broker_epoch
        ):
            self.cluster.violated(
                "FENCEREASON", seq, t, NOWHERE,
                f"broker {fact.broker} is fenced, though its session had not ended and it did not"
                f" ask for it",
            )  # fmt: skip

    # ZooKeeper mode.

    def _on_role(self, _seq: int, t: int, node: str, fact: facts.ZooKeeperRole) -> None:
        if fact.role == "leading":
            self._active[node] = t

    def _on_zk_connection(
        self, _seq: int, _t: int, node: str, fact: facts.ZooKeeperConnection
    ) -> None:
        broker = _broker_of(node)
        if broker is not None and fact.state == "EXPIRED" and fact.session_id in self._expiring:
            self._told[broker] = True

    def _on_zk_session(self, seq: int, t: int, node: str, fact: facts.ZooKeeperSession) -> None:
        broker = _broker_of(fact.client)
        if broker is None:
            return
        if fact.event == "created" and fact.zxid > self._session.get(broker, -1):
            self._session[broker] = fact.zxid
            if self._told.pop(broker, False):
                self._end(broker, fact.zxid)
        if fact.event in ("closed", "expired"):
            self._end(broker, fact.zxid)
        elif fact.event in ("created", "touched", "moved"):
            self._touched[node, fact.session_id] = t
        elif fact.event == "expiring":
            self._expiring[fact.session_id] = None
            touched = self._touched.get((node, fact.session_id), 0)
            since = max(touched, self._active.get(node, 0))
            limit = self._session_us(node, fact.client)
            if limit is not None:
                self._judge(seq, t, node, fact.client, since, limit, ZK_SESSION)

    def _end(self, broker: int, zxid: int) -> None:
        """Note that the sessions of a broker that were created before ``zxid`` are over."""
        self._ended[broker] = max(zxid, self._ended.get(broker, -1))

    def _session_us(self, server: str, client: str) -> int | None:
        """Return the timeout of a client's session, as processConnectRequest clamps it."""
        wanted = self._nodes.limit_us(client, ZK_SESSION)
        low = self._nodes.limit_us(server, "minSessionTimeout")
        high = self._nodes.limit_us(server, "maxSessionTimeout")
        if wanted is None or low is None or high is None:
            return None
        return min(max(wanted, low), high)


def _broker_of(node: str) -> int | None:
    """Return the number of a broker, None for another host."""
    kind, _, number = node.rpartition("-")
    return int(number) if kind == "broker" and number.isdigit() else None
