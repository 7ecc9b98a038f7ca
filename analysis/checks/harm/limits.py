"""The settings of brokers on which bounds depend, as a view with a row for each run.

The run's scenario (``runs.spec``) says what its cluster sets; of the rest Kafka's defaults count.
The run's own judges read the same settings (``analysis/judging/source.py:BrokerLimits``).
"""

from __future__ import annotations

SETTINGS: dict[str, tuple[str, int, int]] = {
    "commit_timeout_us": ("offsets.commit.timeout.ms", 5000, 1000),
    "initial_delay_us": ("group.initial.rebalance.delay.ms", 3000, 1000),
    "retention_us": ("offsets.retention.minutes", 10080, 60_000_000),
    "shutdown_retries": ("controlled.shutdown.max.retries", 3, 1),
    "shutdown_backoff_us": ("controlled.shutdown.retry.backoff.ms", 5000, 1000),
    "consumer_session_us": ("group.consumer.session.timeout.ms", 45000, 1000),
    "append_linger_us": ("group.coordinator.append.linger.ms", 5, 1000),
    "producer_us": ("producer.id.expiration.ms", 86_400_000, 1000),
    "most_deliveries": ("group.share.delivery.count.limit", 5, 1),
}
"""Column to Kafka's setting, its default, and how many µs its unit has."""


def _column(name: str) -> str:
    setting, default, unit_us = SETTINGS[name]
    return f"coalesce(CAST(config['{setting}'] AS BIGINT), {default}L) * {unit_us} AS {name}"


BROKER_LIMITS = f"""
    SELECT run, {", ".join(_column(name) for name in SETTINGS)}
    FROM (SELECT run, from_json(get_json_object(spec, '$.cluster.config'), 'MAP<STRING, STRING>')
                      AS config FROM runs)"""
