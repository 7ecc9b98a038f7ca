"""Where the coordinators' partitions are, under the name that judges of liveness still use."""

from __future__ import annotations

from kafkasim.analysis.judging.history.topics import coordinator_partition, offsets_partition

__all__ = ["coordinator_partition", "offsets_partition"]
