"""The historical bugs (facts, 8.1 to 8.3) as variants, each with the script that finds it."""

from __future__ import annotations

from kafkasim.scenarios.variants import Variant
from kafkasim.scenarios.variants.bugs.controllers import CONTROLLERS
from kafkasim.scenarios.variants.bugs.elections import ELECTIONS
from kafkasim.scenarios.variants.bugs.isr import ISR
from kafkasim.scenarios.variants.bugs.raft import RAFT
from kafkasim.scenarios.variants.bugs.truncation import TRUNCATION
from kafkasim.scenarios.variants.bugs.zookeeper import ZOOKEEPER

BUGS: tuple[Variant, ...] = tuple(
    sorted(
        (*TRUNCATION, *ISR, *ELECTIONS, *CONTROLLERS, *RAFT, *ZOOKEEPER),
        key=lambda variant: variant.id,
    )
)
