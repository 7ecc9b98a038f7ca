"""The bandwidth quotas of clients: Kafka's ClientQuotaManager and QuotaUtils.

``producer_byte_rate`` and ``consumer_byte_rate`` limit what a user, a client id or a client id of a
user sends to or gets from this broker, in bytes a second. Clients with one quota share it. A client
above its rate is answered at once, with the throttle time in the answer; its connection stays muted
for that long, and the client waits as well (KIP-219; KAFKA.md, 1.9).

A client without a principal of its own is the user ANONYMOUS.

Left out: custom callbacks, the metrics' expiry.
"""

from __future__ import annotations

from typing import Any, Protocol

from kafkasim.model.controller.common.client_quotas import Quotas, Tags, applied, rate_text
from kafkasim.model.facts import Throttled
from kafkasim.model.replication.quotas.rate import DEFAULT, Rate, Windows, throttle_time_ms
from kafkasim.model.replication.rules import ReplicationRules

ANONYMOUS = "ANONYMOUS"
"""The user of a connection without authentication (KafkaPrincipal.ANONYMOUS)."""


class QuotaMetadata(Protocol):
    """What a broker's metadata says of quotas; a change replaces the mapping."""

    @property
    def client_quotas(self) -> Quotas:
        """All quotas."""

    @property
    def offset(self) -> int:
        """How far the metadata has come."""


class ClientQuotaManager:
    """One kind of quota on one broker."""

    def __init__(
        self,
        key: str,
        api: str,
        metadata: QuotaMetadata,
        rules: ReplicationRules,
        out: list[Any],
        windows: Windows = DEFAULT,
    ) -> None:
        self._windows = windows
        self._key = key
        self._api = api
        self._metadata = metadata
        self._rules = rules
        self._out = out
        self._rates: dict[Tags, Rate] = {}
        self._known: dict[Tags, tuple[Tags, float | None]] = {}  # by user and client id

    @property
    def enabled(self) -> bool:
        """Whether any client has a quota."""
        return bool(self._metadata.client_quotas)

    def limit(self, client_id: str, user: str = ANONYMOUS) -> float | None:
        """Return a client's quota in bytes a second, None without one."""
        return self._applied(user, client_id)[1]

    def _applied(self, user: str, client_id: str) -> tuple[Tags, float | None]:
        tags, limit = applied(self._metadata.client_quotas, self._key, user, client_id)
        known = self._known.get((user, client_id), (tags, limit))
        in_force = self._rules.quota_in_force(known[1], limit)
        found = self._known[user, client_id] = (tags if in_force == limit else known[0], in_force)
        return found

    def record(self, client_id: str, size: int, now: int, user: str = ANONYMOUS) -> int:
        """Count bytes; return the throttle time in ms, 0 within the quota.

        The time is that after which the same bytes are within the quota.
        """
        tags, limit = self._applied(user, client_id)
        if limit is None:
            return 0
        now_ms = now // 1000
        rate = self._rates.setdefault(tags, Rate(self._windows))
        rate.record(size, now_ms)
        throttle_ms = throttle_time_ms(rate, limit, now_ms)
        if throttle_ms:
            in_force, offset = rate_text(limit), self._metadata.offset
            self._out.append(
                Throttled(client_id, self._api, throttle_ms, user, self._key, in_force, offset)
            )
        return throttle_ms

    def unrecord(self, client_id: str, size: int, now: int, user: str = ANONYMOUS) -> None:
        """Take bytes back that are not sent after all (unrecordQuotaSensor).

        A client without this quota, which request_percentage throttles, has none to take back.
        """
        rate = self._rates.get(self._applied(user, client_id)[0])
        if rate is not None:
            rate.record(-size, now // 1000)

    def most_bytes(self, client_id: str, user: str = ANONYMOUS) -> int | None:
        """Return what fits into the quota's windows, None without a quota
        (getMaxValueInQuotaWindow)."""
        limit = self.limit(client_id, user)
        windows = self._windows
        return None if limit is None else int(limit * (windows.count - 1) * windows.size_ms / 1000)
