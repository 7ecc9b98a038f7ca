"""Quotas of clients (KIP-546), most of them wrong in one way."""

from __future__ import annotations

from kafkasim.model import messages as m
from kafkasim.model.messages.clients.admin import (
    MATCH_DEFAULT,
    MATCH_EXACT,
    MATCH_SPECIFIED,
    QuotaEntity,
    quota_entity,
)
from tests.fidelity.conversations.talk import Talk

SENT, GOT = "producer_byte_rate", "consumer_byte_rate"


def of(**names: str | None) -> QuotaEntity:
    """Return an entity: ``of(user=…, client_id=…)``."""
    return quota_entity((kind.replace("_", "-"), name) for kind, name in names.items())


def client_quotas(talk: Talk) -> None:
    def alter(what: str, entity: QuotaEntity, *rates: tuple[str, float | None]) -> None:
        talk.ask(what, m.AlterClientQuotasRequest((m.ClientQuotaAlteration(entity, rates),)))
        talk.side.settle(0.5)

    def show(what: str, *components: tuple[str, int, str | None], strict: bool = False) -> None:
        talk.ask(what, m.DescribeClientQuotasRequest(components, strict), node=2)

    show("describe before any is set")
    alter("set a client's", of(client_id="one"), (SENT, 1e6), (GOT, 2e6))
    alter("set the default client's", of(client_id=None), (SENT, 3e6))
    alter("set a user's", of(user="ann"), (SENT, 4e6))
    alter("set a client's of a user", of(user="ann", client_id="a b~*%"), (SENT, 5e6))
    alter("set the default client's of a user", of(user="bob", client_id=None), (SENT, 6e6))
    alter("set the default user's", of(user=None), (GOT, 7e6))
    alter("set a client named <default>", of(client_id="<default>"), (GOT, 8e6))
    show("describe all")
    show("describe a client", ("client-id", MATCH_EXACT, "one"))
    show("describe the default client", ("client-id", MATCH_DEFAULT, None))
    show("describe all clients", ("client-id", MATCH_SPECIFIED, None))
    show("describe all clients alone", ("client-id", MATCH_SPECIFIED, None), strict=True)
    show("describe a user", ("user", MATCH_EXACT, "ann"))
    show("describe a user alone", ("user", MATCH_EXACT, "ann"), strict=True)
    both = ("user", MATCH_SPECIFIED, None), ("client-id", MATCH_SPECIFIED, None)
    show("describe all clients of users", *both)
    show("describe an unknown user", ("user", MATCH_EXACT, "eve"))
    show("describe nothing, strictly", strict=True)
    show("describe users twice", both[0], both[0])
    show("describe no type", ("", MATCH_SPECIFIED, None))
    show("describe an unknown type", ("group", MATCH_SPECIFIED, None))
    show("describe by an unknown match", ("user", 7, None))
    show("describe an exact match of nothing", ("user", MATCH_EXACT, None))
    alter("set nothing's", (), (SENT, 1e6))
    alter("set an unknown type's", of(group="one"), (SENT, 1e6))
    alter("set that of a client without a name", of(client_id=""), (SENT, 1e6))
    alter("set an unknown key", of(client_id="one"), ("no.such.key", 1e6))
    alter("remove an unknown key", of(client_id="one"), ("no.such.key", None))
    alter("set half a byte", of(client_id="one"), (SENT, 1.5))
    alter("set one key twice", of(client_id="two"), (SENT, 1e6), (SENT, 2e6))
    alter("set a right and a wrong key", of(client_id="two"), (SENT, 1e6), ("no.such.key", 1))
    alter("set no key", of(client_id="two"))
    alter("set 0", of(client_id="none"), (SENT, 0))
    alter("set -1", of(client_id="less"), (SENT, -1))
    rates = (SENT, 1e6), (GOT, 2e6)
    twice = tuple(m.ClientQuotaAlteration(of(client_id="two"), (rate,)) for rate in rates)
    talk.ask("set one client's twice", m.AlterClientQuotasRequest(twice))
    talk.ask("set of no entity", m.AlterClientQuotasRequest(()))
    talk.side.settle(0.5)
    show("describe what is left")
    alter("remove one of two", of(client_id="one"), (GOT, None))
    alter("remove a client's of a user", of(user="ann", client_id="a b~*%"), (SENT, None))
    alter("remove a user's", of(user="ann"), (SENT, None))
    alter("remove the default client's of a user", of(user="bob", client_id=None), (SENT, None))
    alter("remove what is not set", of(user="eve", client_id="one"), (SENT, None))
    show("describe after the removals")
    clients = [of(client_id=name) for name in ("one", "two", None, "<default>", "none", "less")]
    for entity in (*clients, of(user=None)):
        unset = m.ClientQuotaAlteration(entity, ((SENT, None), (GOT, None)))
        talk.side.ask(1, m.AlterClientQuotasRequest((unset,)))
    talk.side.settle(0.5)
    show("describe at the end")
