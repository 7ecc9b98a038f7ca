"""The historical bugs (facts, 8.1 to 8.3) as variants, each with the script that finds it."""

from __future__ import annotations

from scenarios.variants import Variant
from scenarios.variants.controllers import CONTROLLERS
from scenarios.variants.elections import ELECTIONS
from scenarios.variants.isr import ISR
from scenarios.variants.raft import RAFT
from scenarios.variants.truncation import TRUNCATION
from scenarios.variants.zookeeper import ZOOKEEPER

BUGS: tuple[Variant, ...] = tuple(
    sorted(
        (*TRUNCATION, *ISR, *ELECTIONS, *CONTROLLERS, *RAFT, *ZOOKEEPER),
        key=lambda variant: variant.id,
    )
)
