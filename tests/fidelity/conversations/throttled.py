"""Clients above their quotas: who has to wait, and whose answer is empty or refused (KIP-13, 124,
219, 257, 599).

A throttled connection stays muted, so each user is throttled once, as the last that it asks. Rates
are far above or far below what is sent: times are no subject here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.messages.clients.admin import QuotaEntity
from kafkasim.model.records import RecordBatch, TopicPartition
from tests.fidelity.conversations.quotas import GOT, SENT, of
from tests.fidelity.conversations.talk import Talk, batch, produce
from tests.fidelity.real_kafka import USERS
from tests.fidelity.wire import CLIENT_ID

LOW, HIGH = 1.0, 1e9
"""Rates that one batch is above, and that nothing here is above."""

TIME, MUTATIONS = "request_percentage", "controller_mutation_rate"

LEVELS: dict[str, Callable[[str], QuotaEntity]] = {
    "a client of a user": lambda user: of(user=user, client_id=CLIENT_ID),
    "the default client of a user": lambda user: of(user=user, client_id=None),
    "a user": lambda user: of(user=user),
    "a client of the default user": lambda _: of(user=None, client_id=CLIENT_ID),
    "the default client of the default user": lambda _: of(user=None, client_id=None),
    "the default user": lambda _: of(user=None),
    "a client": lambda _: of(client_id=CLIENT_ID),
    "the default client": lambda _: of(client_id=None),
}
"""What a quota may be of, from the most specific to the least (ClientQuotaManager)."""

Users = Iterator[str]


def users_from(first: int) -> Users:
    """Return users who have not asked yet, since each may be throttled once."""
    return iter(USERS[USERS.index(f"user-{first}") :])


def precedence(talk: Talk) -> None:
    """The quota of the most specific entity counts, whatever the others say."""
    tp, users = talk.create("levelled"), users_from(0)
    for at, what in enumerate(LEVELS):
        for own, others in ((HIGH, LOW), (LOW, HIGH)):
            user = next(users)
            entities = [level(user) for level in LEVELS.values()][at:]
            _alter(talk, *((entity, SENT, others if place else own)
                           for place, entity in enumerate(entities)))  # fmt: skip
            rate = "much" if own == HIGH else "little"
            talk.ask(f"{rate} for {what}", _produce(tp, batch(1)), 1, user)
            _alter(talk, *((entity, SENT, None) for entity in entities))
    talk.ask("none", _produce(tp, batch(1)), 1, next(users))


def bandwidth(talk: Talk) -> None:
    """Produce and Fetch above their byte rates, or above none."""
    tp, empty, users = talk.create("metered"), talk.create("unused"), users_from(20)
    away = TopicPartition("metered", 7)
    talk.side.ask(1, _produce(tp, batch(1)))
    coordinator = talk.coordinator("g")

    def fetch(of_: TopicPartition) -> m.FetchRequest:
        asked = m.FetchPartition(of_, talk.ids[of_.topic], 0, -1, -1, -1, 1 << 20)
        return m.FetchRequest(-1, -1, 0, 1, 1 << 20, 0, (asked,), client_id=CLIENT_ID)

    def ask(what: str, key: str, rate: float, message: Any, node: int = 1) -> None:
        user = next(users)
        _alter(talk, (of(user=user), key, rate))
        talk.ask(what, message, node, user)

    for key in (SENT, GOT, TIME):
        rate = 1e-7 if key == TIME else LOW
        ask(f"produce above {key}", key, rate, _produce(tp, batch(2)))
        ask(f"produce to an unknown partition above {key}", key, rate, _produce(away, batch(2)))
        ask(f"fetch above {key}", key, rate, fetch(tp))
        ask(f"fetch what is empty above {key}", key, rate, fetch(empty))
        ask(f"metadata above {key}", key, rate, m.MetadataRequest(("metered",), False))
    ask("find a coordinator above its time", TIME, 1e-7, m.FindCoordinatorRequest("g"))
    ask(
        "a heartbeat above its time", TIME, 1e-7, m.HeartbeatRequest("g", 1, "m", None), coordinator
    )


def mutations(talk: Talk) -> None:
    """Topics created, grown and deleted above controller_mutation_rate.

    At 1 partition a second a client may have 11 at once; what overdraws that is admitted.
    """
    users = users_from(44)

    def client() -> Callable[..., Any]:
        user = next(users)
        _alter(talk, (of(user=user), MUTATIONS, 1.0))
        return partial(talk.ask, user=user)

    def create(*topics: tuple[str, int], **fields: bool) -> m.CreateTopicsRequest:
        wanted = tuple(m.CreatableTopic(name, count, 1, (), ()) for name, count in topics)
        return m.CreateTopicsRequest(wanted, 10_000, **fields)

    def grow(topic: str, count: int, **fields: bool) -> m.CreatePartitionsRequest:
        return m.CreatePartitionsRequest((m.CreatePartitionsTopic(topic, count),), **fields)

    def delete(*topics: str, **fields: bool) -> m.DeleteTopicsRequest:
        return m.DeleteTopicsRequest(tuple((name, "") for name in topics), **fields)

    ask = client()
    ask("create 31 partitions", create(("a", 31)))
    ask("create one more", create(("b", 1)))
    ask = client()
    ask("create 31 and one more at once", create(("c", 31), ("d", 1)))
    ask = client()
    ask("create what exists", create(("a", 31)))
    ask("create what may not be", create(("a b", 31)))
    ask("validate 31", create(("e", 31), validate_only=True))
    ask("create one after that", create(("e", 1)))
    ask = client()
    ask("create 31 by an older version", create(("f", 31), knows_quota=False))
    ask = client()
    ask("grow by 31", grow("a", 62))
    ask("grow by one more", grow("a", 63))
    ask = client()
    ask("grow by 31 by an older version", grow("a", 93, knows_quota=False))
    ask = client()
    ask("delete 31", delete("f"))
    ask("delete more", delete("c"))
    ask = client()
    ask("delete what is not", delete("nowhere"))
    ask("delete 31 by an older version", delete("c", knows_quota=False))
    unlimited = partial(talk.ask, user=next(users))
    unlimited("create without a quota", create(("g", 31)))
    unlimited("create more without a quota", create(("h", 31)))


def _produce(tp: TopicPartition, made: RecordBatch) -> m.ProduceRequest:
    return replace(produce(tp, made), client_id=CLIENT_ID)


def _alter(talk: Talk, *rates: tuple[QuotaEntity, str, float | None]) -> None:
    """Set quotas, or unset them, and let every node know."""
    entries = tuple(m.ClientQuotaAlteration(entity, ((key, rate),)) for entity, key, rate in rates)
    answer = talk.side.ask(1, m.AlterClientQuotasRequest(entries))
    assert not any(error for _, error, _ in answer.results), answer
    talk.side.settle(0.3)


CONVERSATIONS = {"precedence": precedence, "bandwidth": bandwidth, "mutations": mutations}
