"""The bandwidth quotas of clients: Kafka's ClientQuotaManager and QuotaUtils.

``producer_byte_rate`` and ``consumer_byte_rate`` limit what one client id sends to or gets from
this broker, in bytes a second. A client above its rate is answered at once, with the throttle time
in the answer; its connection stays muted for that long, and the client waits as well (KIP-219;
KAFKA.md, 1.9).

Left out: quotas of users and of request time, custom callbacks, the metrics' expiry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafkasim.model.broker.common.quotas.rate import SAMPLES, Rate
from kafkasim.model.facts import Throttled

Quotas = Mapping[str | None, Mapping[str, float]]
"""Client id, None for the default, to its quotas."""


class ClientQuotaManager:
    """One kind of quota on one broker; ``quotas()`` are those of the metadata."""

    def __init__(self, key: str, api: str, quotas: Callable[[], Quotas], out: list[Any]) -> None:
        self._key = key
        self._api = api
        self._quotas = quotas
        self._out = out
        self._rates: dict[str, Rate] = {}

    @property
    def enabled(self) -> bool:
        """Whether any client has a quota."""
        return bool(self._quotas())

    def limit(self, client_id: str) -> float | None:
        """Return a client's quota in bytes a second: its own, else the default, else None."""
        quotas = self._quotas()
        for name in (client_id, None):
            if self._key in quotas.get(name, {}):
                return quotas[name][self._key]
        return None

    def record(self, client_id: str, size: int, now: int) -> int:
        """Count bytes; return the throttle time in ms, 0 within the quota.

        The time is that after which the same bytes are within the quota (QuotaUtils.throttleTime):
        (rate − limit) / limit × the measured window.
        """
        limit = self.limit(client_id)
        if limit is None:
            return 0
        now_ms = now // 1000
        rate = self._rates.setdefault(client_id, Rate())
        rate.record(size, now_ms)
        measured = rate.measure(now_ms)
        if measured <= limit:
            return 0
        throttle_ms = int((measured - limit) / limit * rate.window_ms(now_ms) + 0.5)
        self._out.append(Throttled(client_id, self._api, throttle_ms))
        return throttle_ms

    def unrecord(self, client_id: str, size: int, now: int) -> None:
        """Take bytes back that are not sent after all (unrecordQuotaSensor)."""
        self._rates[client_id].record(-size, now // 1000)

    def most_bytes(self, client_id: str) -> int | None:
        """Return what fits into the quota's windows, None without a quota
        (getMaxValueInQuotaWindow)."""
        limit = self.limit(client_id)
        return None if limit is None else int(limit * (SAMPLES - 1))
