"""The chains of share groups' anomalies: what happened to one record of one share partition."""

from __future__ import annotations

from kafkasim.analysis.explain.chain import Chain, Found
from kafkasim.analysis.explain.facts import Facts, Key
from kafkasim.sim.trace.reading import Row


def delivery_of_a_record(facts: Facts, key: Key, found: Found) -> Chain:
    """Return who was handed the record, what became of it each time, and who led meanwhile."""
    offset, until = found["offset"], found["seq"] + 1
    of = {"group": found["group"], "before": until}

    def holds(row: Row) -> bool:
        return bool(row["first_offset"] <= offset <= row["last_offset"])

    def names(row: Row) -> bool:
        return offset in row["offsets"]

    def is_behind(row: Row) -> bool:
        return bool(row["start_offset"] > offset)

    chain = Chain()
    chain.add(*facts.rows(["ShareAcquired", "ShareMoved"], key, where=holds, **of))
    chain.add(*facts.rows(["ShareAcknowledged"], key, where=names, **of))
    chain.add(*facts.rows(["SharePartitionLoaded", "SharePartitionClosed"], key, **of))
    chain.add(facts.first(["ShareStartMoved"], key, where=is_behind, **of))
    chain.turns(facts.row(found["seq"]), found["text"])
    return chain
