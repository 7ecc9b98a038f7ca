"""The model's operators do with generated records what TopologyTestDriver says that Kafka's do.

Compared are the description of each topology, what every record writes to the output topics and to
the changelogs, how many records are dropped, and what the stores hold at the end.
"""

from __future__ import annotations

from tests.fidelity.kafka_topologies import cases, committed, model_lines


def test_operators_do_what_topology_test_driver_says() -> None:
    kafka = committed()
    different = [case.name for case in cases() if model_lines(case) != kafka[case.name]]
    assert (different, list(kafka)) == ([], [case.name for case in cases()])
