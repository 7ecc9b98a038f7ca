"""How long a healed cluster may take to converge, as the scenario's configuration allows."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping

from kafkasim.model.config import (
    BrokerConfig,
    ConsumerConfig,
    LegacyConsumerConfig,
    ProducerConfig,
    ShareConsumerConfig,
    ShareGroupSettings,
)
from kafkasim.model.messages.base import HEADER, PER_PARTITION
from kafkasim.model.records import BATCH_OVERHEAD
from kafkasim.scenarios.language.nodes import transactional_id
from kafkasim.scenarios.language.tables import (
    ConsumerGroupTable,
    ProcessorTable,
    ProducerTable,
    Scenario,
    ShareGroupTable,
)

SILENT = ("power-loss", "rack-loss", "half-open", "nemesis")
"""Faults after which a request may never be answered and its connection is not closed either.

A JoinGroup then waits for its own timeout: max.poll.interval.ms + JOIN_SLACK_MS
(AbstractCoordinator.sendJoinGroupRequest)."""

JOIN_SLACK_MS = 5000

ROUND_US = 100_000
"""The longest that the requests of one poll may take in a healed cluster, on average.

They are a Fetch, an OffsetCommit or the requests of a transaction: a dozen round trips and fsyncs
in a row, each of some ms."""

LONGEST_BACK_OFF_US = 300_000_000
"""How long the restart of a client's process may be put off (running/restarting.py)."""

RECORD_OVERHEAD = 100
"""The most bytes that the key and the fields of a record add to its value and headers."""


def limit_us(scenario: Scenario) -> int:
    """Return how long a healed cluster may take to converge, in µs of simulated time.

    It is 30 s and twice the longest of: the broker's session (KRaft or ZooKeeper), 1.5 ×
    replica.lag.time.max.ms, delivery.timeout.ms, metadata.max.age.ms and max.block.ms of producers;
    of those with a transactional id also transaction.timeout.ms with the period in which
    coordinators look for old transactions; consumers' session.timeout.ms and metadata.max.age.ms,
    the session, the attempts at a rebalance and socket.timeout.ms of old ones, the session of a
    share group and the locks of all deliveries, and what its members wait for brokers whose
    connections are lost; max.poll.interval.ms where a member or a coordinator gets stuck; and how
    long the largest requests of producers with quotas are throttled. With a restart
    policy of a client it is longer by the longest back-off. If an operator replaces a disk, the
    longest is leader.imbalance.check.interval.seconds at least: the only replica of a partition
    leads no sooner.
    """
    broker = BrokerConfig.from_properties(scenario.cluster.config)
    silent = any(fault.kind in SILENT for fault in scenario.faults)
    zookeeper = scenario.cluster.mode == "zookeeper"
    session = broker.zookeeper_session_timeout_ms if zookeeper else broker.broker_session_timeout_ms
    longest = [session, broker.replica_lag_time_max_ms * 3 // 2, _throttled_ms(scenario)]
    for workload in scenario.workload:
        if workload.kind == "share-group":
            longest += _share_group_ms(workload, broker)
            if silent:
                longest.append(_silent_ms(workload, broker, scenario.cluster.brokers))
            continue
        if workload.kind != "consumer-group":
            writes = workload.config
            if workload.kind == "processor":
                writes = workload.producer_config
            longest.append(int(str(writes.get("delivery.timeout.ms", 120_000))))
            longest.append(int(str(writes.get("metadata.max.age.ms", 300_000))))
            longest.append(int(str(writes.get("max.block.ms", 60_000))))
            if transactional_id(workload, 0) is not None:
                longest.append(_transaction_ms(writes, broker))
        if workload.kind == "consumer-group" and workload.protocol == "zookeeper":
            longest.append(_old_consumer_ms(workload.config))
        elif workload.kind != "producer":
            config = ConsumerConfig.from_properties(workload.config)
            longest += [config.session_timeout_ms, config.metadata_max_age_ms]
            if silent or (workload.kind == "consumer-group" and workload.stuck_at is not None):
                longest.append(config.max_poll_interval_ms + JOIN_SLACK_MS)
    replaced = any(operation.kind == "replace-disk" for operation in scenario.operations)
    if replaced and not zookeeper and broker.auto_leader_rebalance_enable:
        longest.append(1000 * broker.leader_imbalance_check_interval_seconds)
    restarts = any(workload.restart != "never" for workload in scenario.workload)
    return 2 * max(longest) * 1000 + 30_000_000 + (LONGEST_BACK_OFF_US if restarts else 0)


def reading_us(
    scenario: Scenario, unread: Mapping[str, int], unanswered: Container[str] = ()
) -> int:
    """Return how long groups may take to read what they have not read, in µs of simulated time.

    ``unread`` is the number of offsets by group. The slowest group counts, as if one member had all
    its partitions. Each poll of that member takes the processing of its records, and what its
    requests take; a Fetch that the broker parks, because the partitions it is for have nothing,
    holds up the others of that broker for fetch.max.wait.ms. A poll returns max.poll.records, or
    less if a Fetch brings less: one batch at least, otherwise what max.partition.fetch.bytes,
    fetch.max.bytes and a segment hold, since a read ends with its segment (LocalLog.read). The
    records are counted as if they were the largest, and each of them a batch. With a
    consumer_byte_rate all groups wait for it together, as one user's clients do. A share group gets
    again what it releases, a processor what it aborts. What processors read they write, so with a
    producer_byte_rate they wait for that, too. A share group whose records may be held for longer
    than their lock gets them as often as the limit of deliveries allows. ``unanswered`` are the
    share groups of which a leader answers no acknowledgement (KAFKA.md, 3.6).
    """
    broker = BrokerConfig.from_properties(scenario.cluster.config)
    tables = [each for each in scenario.workload if each.kind != "producer"]
    size = max([_largest(each) for each in scenario.workload], default=0)
    batch_bytes = BATCH_OVERHEAD + RECORD_OVERHEAD + size
    answers = scenario.cluster.brokers, _batch_records(scenario)
    again = {
        each.group: _reads(each, unread.get(each.group, 0), answers, broker, unanswered)
        for each in tables
    }
    held = _segment_bytes(scenario, broker) // batch_bytes
    times = [_reads_us(each, again[each.group], batch_bytes, held, broker) for each in tables]
    times += [
        again_us
        + _unanswered_us(each, unread[each.group], _polled(each, batch_bytes, held), broker)
        for each, again_us in zip(tables, times, strict=True)
        if each.kind == "share-group" and each.group in unread and each.group in unanswered
    ]
    reads_us = max(times, default=0) + _throttled_reads_us(scenario, again, batch_bytes)
    return reads_us + _throttled_writes_us(scenario, unread, batch_bytes)


def _largest(table: ConsumerGroupTable | ProcessorTable | ProducerTable | ShareGroupTable) -> int:
    """Return the size of the records that a workload writes, with the texts as they are given."""
    if table.kind == "consumer-group" or table.kind == "share-group":
        return 0
    if table.kind == "processor":
        return table.value_size
    texts = [*table.headers, *table.headers.values(), table.value or ""]
    return table.value_size + sum([len(text.encode()) for text in texts])


def _reads_us(
    table: ConsumerGroupTable | ProcessorTable | ShareGroupTable,
    unread: int,
    batch_bytes: int,
    held: int,
    broker: BrokerConfig,
) -> int:
    """Return how long one member may take to read ``unread`` records, a batch each.

    A segment that is rolled by its size has at least ``held`` of them.
    """
    polls = -(-unread // _polled(table, batch_bytes, held))
    return polls * _round_us(table, broker) + unread * table.processing.high


def _polled(
    table: ConsumerGroupTable | ProcessorTable | ShareGroupTable, batch_bytes: int, held: int
) -> int:
    """Return how many records a poll gets at least, if there are more."""
    if table.kind == "consumer-group" and table.protocol != "coordinator":
        return 1
    config = ConsumerConfig.from_properties(table.config)
    fetched = min(config.max_partition_fetch_bytes, config.fetch_max_bytes) // batch_bytes
    return max(1, min(config.max_poll_records, fetched, held))


def _round_us(
    table: ConsumerGroupTable | ProcessorTable | ShareGroupTable, broker: BrokerConfig
) -> int:
    """Return how long a poll may take without the processing of its records.

    The next fetch of a share consumer waits until what it has acknowledged is written. The share
    coordinator gathers writes for share.coordinator.append.linger.ms.
    """
    round_us = ROUND_US
    if table.kind == "share-group":
        round_us += broker.share_coordinator_append_linger_ms * 1000
    if table.kind != "consumer-group" or table.protocol == "coordinator":
        round_us += ConsumerConfig.from_properties(table.config).fetch_max_wait_ms * 1000
    return round_us


def _segment_bytes(scenario: Scenario, broker: BrokerConfig) -> int:
    """Return the size of the smallest segments that a topic has, now or by an operation."""
    configs = [each.config for each in scenario.topics]
    configs += [each.config for each in scenario.operations]
    keys = ("segment.bytes", "internal.segment.bytes")
    sizes = [int(str(each[key])) for each in configs for key in keys if key in each]
    return min([broker.log_segment_bytes, *sizes])


def _batch_records(scenario: Scenario) -> int:
    """Return how many records the largest batch may have: batch.size, of their values alone."""
    counts = []
    for table in scenario.workload:
        if table.kind == "producer" or table.kind == "processor":
            own = table.config if table.kind == "producer" else table.producer_config
            size = int(str(own.get("batch.size", ProducerConfig.batch_size)))
            counts.append(size // max(1, table.value_size))
    return max([1, *counts])


def _reads(
    table: ConsumerGroupTable | ProcessorTable | ShareGroupTable,
    unread: int,
    answers: tuple[int, int],
    broker: BrokerConfig,
    unanswered: Container[str],
) -> int:
    """Return how many records a group is given until it has read ``unread`` of them.

    ``answers`` are the brokers that may answer a fetch, and the records of the largest batch.
    """
    if table.kind != "share-group":
        return unread * (_attempts(table.abort_share) if table.kind == "processor" else 1)
    if table.group in unanswered or _outlasts_locks(table, unread, answers, broker):
        return unread * broker.group_share_delivery_count_limit
    return unread * _deliveries(table, broker)


def _deliveries(table: ShareGroupTable, broker: BrokerConfig) -> int:
    """Return how often a record comes that the application may release: twice the mean at most."""
    most, kept = broker.group_share_delivery_count_limit, 1 - table.release_share
    if not table.release_share:
        return 1
    return min(most, math.ceil(2 / kept)) if kept > 0 else most


def _outlasts_locks(
    table: ShareGroupTable, unread: int, answers: tuple[int, int], broker: BrokerConfig
) -> bool:
    """Return whether locks may end before their records are acknowledged.

    Then each record comes until its deliveries are used up. A consumer fetches from all leaders at
    once (ShareConsumeRequestManager.poll), and each gives it whole batches, so max.poll.records is
    passed by up to a batch (KIP-932). It processes all of that before it fetches again. The last
    records are acknowledged with the poll behind them, whose request takes a round.
    """
    brokers, batch = answers
    config = ShareConsumerConfig.from_properties({"group.id": table.group, **table.config})
    held = min(unread, brokers * (config.max_poll_records - 1 + batch))
    held_us = held * table.processing.high + _round_us(table, broker)
    return held_us > _lock_ms(table, broker) * 1000


def _unanswered_us(table: ShareGroupTable, unread: int, polled: int, broker: BrokerConfig) -> int:
    """Return how long a member may wait for answers that its leaders never give.

    The leader has written the acknowledgements, of ``polled`` records at least. The member gives
    the request up after request.timeout.ms and has no session then, so it fails what else it has to
    acknowledge there (ShareConsumeRequestManager.handleShareAcknowledgeFailure,
    ShareSessionHandler.handleError, isNewSession). Those records come again when their locks have
    ended. Meanwhile it fetches from no leader (checkAndRemoveCompletedAcknowledgements).
    """
    config = ShareConsumerConfig.from_properties({"group.id": table.group, **table.config})
    waits = -(-unread * _deliveries(table, broker) // polled)
    return waits * (config.request_timeout_ms + _lock_ms(table, broker)) * 1000


def _attempts(abort_share: float) -> int:
    """Return how many transactions have a record, until one commits: twice the mean at most."""
    return math.ceil(2 / (1 - abort_share)) if 0 < abort_share < 1 else 1


def _quota_window_ms(scenario: Scenario) -> int:
    """Return what the quota of a client counts: all windows of its rate."""
    config = scenario.cluster.config
    count = int(str(config.get("quota.window.num", BrokerConfig.quota_window_num)))
    size = config.get("quota.window.size.seconds", BrokerConfig.quota_window_size_seconds)
    return count * int(str(size)) * 1000


def _least_rate(scenario: Scenario, key: str) -> float:
    """Return the lowest quota of a kind that an operator sets, in bytes a second; 0: none."""
    quotas = [each.config for each in scenario.operations if each.kind == "alter-client-quotas"]
    return min([float(str(each[key])) for each in quotas if key in each], default=0.0)


def _throttled_ms(scenario: Scenario) -> int:
    """Return how long a broker may throttle a producer for one request, 0 without quotas.

    A request has a batch of each partition at most. After the throttle the window is empty again.
    """
    rate = _least_rate(scenario, "producer_byte_rate")
    if not rate:
        return 0
    counts = [max(each.partitions, len(each.assignment)) for each in scenario.topics]
    partitions = max(counts, default=0)
    configs = [
        each.producer_config if each.kind == "processor" else each.config
        for each in scenario.workload
        if each.kind not in ("consumer-group", "share-group")
    ]
    sizes = [int(str(each.get("batch.size", ProducerConfig.batch_size))) for each in configs]
    size = max(sizes, default=0)
    return _quota_window_ms(scenario) + int(partitions * size / rate * 1000)


def _throttled_reads_us(scenario: Scenario, reads: Mapping[str, int], batch_bytes: int) -> int:
    """Return how long groups that share one quota of consumers wait for it, 0 without quotas.

    ``reads`` is how many batches each of them gets, those among them that it gets again.
    """
    rate = _least_rate(scenario, "consumer_byte_rate")
    batches = sum([reads[group] for group in sorted(reads)])
    if not rate or not batches:
        return 0
    return _quota_window_ms(scenario) * 1000 + int(batches * batch_bytes / rate * 1_000_000)


def _throttled_writes_us(scenario: Scenario, unread: Mapping[str, int], batch_bytes: int) -> int:
    """Return how long processors wait that write what they read, 0 without quotas of producers.

    A transaction ends when its last batch is acknowledged, and the next begins after that. Each
    broker counts for itself, each batch at one of them: so this is enough even if the throttles of
    two brokers never overlap. Who aborts writes the same records again.
    """
    rate = _least_rate(scenario, "producer_byte_rate")
    processors = [each for each in scenario.workload if each.kind == "processor"]
    attempts = {each.group: _attempts(each.abort_share) for each in processors}
    batches = sum([unread.get(group, 0) * attempts[group] for group in attempts])
    if not rate or not batches:
        return 0
    bytes_each = HEADER + PER_PARTITION + batch_bytes  # each batch in a request of its own
    return _quota_window_ms(scenario) * 1000 + int(batches * bytes_each * 1_000_000 / rate)


def _share_group_ms(table: ShareGroupTable, broker: BrokerConfig) -> list[int]:
    """Return how long a member may be missed, and a record be held by one that is gone.

    A record that nobody can process comes again until its deliveries are used up.
    """
    config = ShareConsumerConfig.from_properties({"group.id": table.group, **table.config})
    own = ShareGroupSettings.from_properties(table.group_config)
    session_ms = own.share_session_timeout_ms
    if session_ms <= 0:
        session_ms = broker.group_share_session_timeout_ms
    rounds = broker.group_share_delivery_count_limit
    return [session_ms, rounds * _lock_ms(table, broker), config.metadata_max_age_ms]


def _silent_ms(table: ShareGroupTable, broker: BrokerConfig, brokers: int) -> int:
    """Return how long a member may wait for brokers whose connections are lost without a word.

    It gives a request up after request.timeout.ms. While an acknowledgement to one broker is
    unanswered, it fetches from no other one (ShareConsumeRequestManager.poll), so it may find the
    lost connections one after the other. What it held then comes again when its locks have ended.
    """
    config = ShareConsumerConfig.from_properties({"group.id": table.group, **table.config})
    return brokers * config.request_timeout_ms + _lock_ms(table, broker)


def _lock_ms(table: ShareGroupTable, broker: BrokerConfig) -> int:
    """Return for how long a consumer of a share group may hold what it is given."""
    own_ms = ShareGroupSettings.from_properties(table.group_config).share_record_lock_duration_ms
    return own_ms if own_ms > 0 else broker.group_share_record_lock_duration_ms


def _old_consumer_ms(properties: Mapping[str, object]) -> int:
    """Return how long an old consumer may be without its partitions after the group's last change.

    Its session ends, and so many attempts at a rebalance follow one another as Kafka makes by
    default.
    """
    config = LegacyConsumerConfig.from_properties(properties)
    attempts = min(config.rebalance_max_retries, LegacyConsumerConfig.rebalance_max_retries)
    attempts_ms = attempts * config.rebalance_backoff_ms
    return config.zookeeper_session_timeout_ms + attempts_ms + config.socket_timeout_ms


def _transaction_ms(properties: Mapping[str, object], broker: BrokerConfig) -> int:
    """Return how long a transaction may be open: KAFKA.md 4.4."""
    own = int(str(properties.get("transaction.timeout.ms", 60_000)))
    return own + broker.transaction_abort_timed_out_transaction_cleanup_interval_ms
