"""Shapes: a few small faults close together in place and time.

A race needs several conditions at once: a leadership moves while one link is slow and one broker
gets no metadata. Independent draws hardly ever coincide like that. So in some seeds one of these
shapes replaces the faults and operations that were drawn before.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from kafkasim.scenarios.searching.draw_workload import permitted
from kafkasim.scenarios.searching.shapes import controller_shapes as controllers
from kafkasim.scenarios.searching.shapes import replica_shapes as replicas
from kafkasim.scenarios.searching.shapes.focus import Focus

SHAPES: tuple[tuple[Callable[[Focus], None], int, int], ...] = (
    (replicas.moving_leaders, 6, 6),
    (replicas.there_and_back, 4, 4),
    (replicas.leaving_isr, 3, 3),
    (replicas.rejoining_isr, 4, 4),
    (replicas.controlled_shutdown, 2, 1),
    (replicas.reassignment, 1, 1),
    (replicas.partition_churn, 1, 0),  # with ZooKeeper every reassignment is a new leader epoch
    (replicas.recreated_topic, 2, 2),
    (replicas.short_segments, 1, 1),
    (controllers.paused_controller, 2, 1),
    (controllers.eligible_leaders, 3, 0),
    (controllers.raft_quorum, 4, 0),
    (controllers.zookeeper_session, 0, 2),
    (controllers.zookeeper_bounce, 0, 2),
    (controllers.zookeeper_zombie, 0, 3),
)
"""Each shape with its weight in KRaft and in ZooKeeper mode."""


def play_shape(rng: random.Random, data: dict[str, Any], mode: str) -> None:
    """Put a shape in place of the faults and operations of a drawn scenario."""
    focus = Focus(rng, data, mode)
    weights = [kraft if mode == "kraft" else zookeeper for _, kraft, zookeeper in SHAPES]
    rng.choices([shape for shape, _, _ in SHAPES], weights)[0](focus)
    focus.install()
    data["expect"]["permits"] = permitted(data["workload"], False)
