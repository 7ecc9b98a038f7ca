"""A finding: one row for what a run did that a guarantee, or its scenario, forbids.

All judges return findings, a fleet stores them, and every command shows them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """What broke a guarantee, where, and why that is expected, if it is.

    ``cause`` is why the configuration lets it happen, "" for no reason: ``unclean-election`` where
    such an election has cost the records, ``acks`` for records that were acknowledged without the
    ISR. A scenario permits some findings only where they have a cause (``verdict.py``).
    """

    name: str  # of the guarantee or anomaly: ACKED, lost-write, …
    topic_id: str  # "" for a finding that concerns no partition
    partition: int  # −1 for none
    text: str  # what disagrees, in one sentence; of several, the first
    count: int = 1  # how many records, or occurrences, it stands for
    expected_by: str = ""  # the loss or hole that covers it (last-replica-standing, …)
    offset: int = -1  # of the first record concerned; −1: of no single record
    record_id: int = -1  # of that record; −1 unknown
    group: str = ""
    seq: int = -1  # the row of the trace that showed it; −1: it shows at the end only
    t_us: int = -1  # the time of that row in µs; −1 unknown
    cause: str = ""
