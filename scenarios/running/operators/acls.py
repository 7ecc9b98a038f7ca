"""How an operator changes access control lists (kafka-acls.sh)."""

from __future__ import annotations

from kafkasim.model.controller.common.acls import acl_text
from kafkasim.model.errors import Errors
from kafkasim.model.messages import AclFilter
from kafkasim.scenarios.language.tables import OperationTable
from kafkasim.sim.apps.client_port import ClientPort


async def add_acls(port: ClientPort, operation: OperationTable) -> list[tuple[str, Errors, str]]:
    """Add the entries of ``acls``; return (entry, error, message) of each."""
    bindings = tuple([entry for table in operation.acls for entry in table.bindings])
    answer = await port.call("admin.create_acls", bindings)
    return [
        (acl_text(each), error, message)
        for each, (error, message) in zip(bindings, answer.results, strict=True)
    ]


async def remove_acls(port: ClientPort, operation: OperationTable) -> list[tuple[str, Errors, str]]:
    """Remove the entries of ``acls``, each by a filter of its own; return what was removed.

    An entry that does not exist is no error, as with kafka-acls.
    """
    bindings = [entry for table in operation.acls for entry in table.bindings]
    filters = tuple([AclFilter(*each) for each in bindings])
    answer = await port.call("admin.delete_acls", filters)
    return [
        (acl_text(each), error, message or f"{len(deleted)} removed")
        for each, (error, message, deleted) in zip(bindings, answer.results, strict=True)
    ]
