"""All variants by id: the historical bugs of KAFKA.md, section 8, then the mutations."""

from __future__ import annotations

from collections.abc import Mapping

from kafkasim.scenarios.variants.bugs.access import ACCESS
from kafkasim.scenarios.variants.bugs.classic_groups import CLASSIC_GROUPS
from kafkasim.scenarios.variants.bugs.controllers import CONTROLLERS
from kafkasim.scenarios.variants.bugs.elections import ELECTIONS
from kafkasim.scenarios.variants.bugs.groups import GROUPS
from kafkasim.scenarios.variants.bugs.isr import ISR
from kafkasim.scenarios.variants.bugs.mirrors import MIRROR_BUGS
from kafkasim.scenarios.variants.bugs.raft import RAFT
from kafkasim.scenarios.variants.bugs.share_answers import SHARE_BUGS
from kafkasim.scenarios.variants.bugs.streams import STREAMS
from kafkasim.scenarios.variants.bugs.transactions import TRANSACTIONS
from kafkasim.scenarios.variants.bugs.truncation import TRUNCATION
from kafkasim.scenarios.variants.bugs.workers import WORKER_BUGS
from kafkasim.scenarios.variants.mutations import MUTATIONS
from kafkasim.scenarios.variants.variant import Variant

BUGS: tuple[Variant, ...] = tuple(
    sorted(
        (
            *TRUNCATION,
            *ISR,
            *ELECTIONS,
            *CONTROLLERS,
            *RAFT,
            *GROUPS,
            *CLASSIC_GROUPS,
            *TRANSACTIONS,
            *SHARE_BUGS,
            *ACCESS,
            *MIRROR_BUGS,
            *WORKER_BUGS,
            *STREAMS,
        ),
        key=lambda variant: (
            variant.id[0] != "B",
            variant.id[0],
            int(variant.id[1:].partition("-")[0]),
        ),
    )
)
"""The historical bugs. Each has a script of its own name in scenarios/catalogue/bugs."""

VARIANTS: Mapping[str, Variant] = {variant.id: variant for variant in (*BUGS, *MUTATIONS)}
