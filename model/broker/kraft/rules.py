"""Decisions of BrokerLifecycleManager that a release changed, and one of MetadataLoader."""

from __future__ import annotations

BACKOFF_US = 100_000
MAX_DOUBLINGS = 20


class LifecycleRules:
    """Kafka 4.0."""

    def request_timeout_ms(self, session_timeout_ms: int, interval_ms: int) -> int:
        """Return how long a registration or heartbeat may take before it is sent anew, in ms.

        It is half a session (KAFKA-14392), and broker.heartbeat.interval.ms since 4.1
        (``interval_ms``; BrokerServer.startup).
        """
        return session_timeout_ms // 2

    def retry_delay_us(
        self, attempts: int, draw: float, session_timeout_us: int, interval_us: int
    ) -> int:
        """Return how long a broker waits after a registration or heartbeat that failed.

        ``attempts`` failed before it in a row; ``draw`` is uniform in [0, 1). It waits for 100 ms,
        doubled each time, up to half a session, give or take 2 %. ``interval_us`` is
        broker.heartbeat.interval.ms, the wait since 4.1.
        """
        longest = self.longest_retry_delay_us(session_timeout_us)
        delay = min(BACKOFF_US << min(attempts, MAX_DOUBLINGS), longest)
        return min(int(delay * (0.98 + 0.04 * draw)), longest)

    def longest_retry_delay_us(self, session_timeout_us: int) -> int:
        """Return up to what the wait doubles: half a session."""
        return session_timeout_us // 2

    def serves_before_load(self) -> bool:
        """Return whether a starting broker serves before its metadata is loaded.

        Its authorizer would decide on no entries, or on those that it has read by then
        (KAFKA-13649, A04). The broker waits for the first publication
        (SocketServer.enableRequestProcessing, StandardAuthorizer.completeInitialLoad).
        """
        return False

    def applies_whole_changes(self) -> bool:
        """Return whether all access control entries of one change take effect at once.

        Before 3.3.1 a decision could see some of them (KAFKA-14214, A02).
        """
        return True

    def gathers_metadata(self, published_us: int) -> bool:
        """Return whether committed metadata waits for more before it is published.

        The last publication was ``published_us`` ago. Kafka publishes what it has applied at once
        (MetadataLoader.maybePublishMetadata).
        """
        return False
