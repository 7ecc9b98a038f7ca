"""Raw requests, most of them wrong in one way, with all answers written down.

Each conversation has topics and groups of its own, so that one does not disturb the next. A line of
the result is ``conversation / what was asked: answer``.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.fidelity.conversations import (
    group_admin,
    groups,
    markers,
    operators,
    quotas,
    records,
    transactions,
)
from tests.fidelity.conversations.talk import Talk
from tests.fidelity.sides import Side

CONVERSATIONS: dict[str, Callable[[Talk], None]] = {
    "producing": records.producing,
    "idempotence": records.idempotence,
    "fetching": records.fetching,
    "fetch sessions": records.fetch_sessions,
    "fetch sessions by name": records.fetch_sessions_by_name,
    "offsets and epochs": records.offsets_and_epochs,
    "groups": groups.groups,
    "members": groups.members,
    "static members": groups.static_members,
    "committed offsets": groups.committed_offsets,
    "administering groups": group_admin.administering_groups,
    "topics": operators.topics,
    "configs": operators.configs,
    "moving": operators.moving,
    "through another broker": operators.through_another_broker,
    "features": operators.features,
    "quotas of clients": quotas.client_quotas,
    "deleting records": records.deleting_records,
    "transactions": transactions.transactions,
    "transactions of version 2": transactions.transactions_of_two,
    "markers": markers.markers,
}


def all_answers(side: Side) -> list[str]:
    """Run every conversation on one side; return a line per answer."""
    lines: list[str] = []
    for name, conversation in CONVERSATIONS.items():
        talk = Talk(side, name)
        conversation(talk)
        lines += talk.lines
    return lines
