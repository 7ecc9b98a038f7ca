"""How an operator looks at the metadata quorum (kafka-metadata-quorum.sh describe)."""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.scenarios.language.tables import OperationTable
from kafkasim.sim.apps.client_port import ClientPort


async def describe_quorum(port: ClientPort, _: OperationTable) -> list[tuple[str, Errors, str]]:
    """Return the leader, the high watermark, and the ends of the replicas' logs, as one message."""
    answer = await port.call("admin.describe_quorum")
    voters, observers = (
        ", ".join(f"{replica.id} at {replica.log_end_offset}" for replica in replicas)
        for replicas in (answer.voters, answer.observers)
    )
    told = f"leader {answer.leader_id} of epoch {answer.leader_epoch}; high watermark"
    told += f" {answer.high_watermark}; voters {voters}; observers {observers or 'none'}"
    return [("quorum", answer.error, told)]
