"""A few more faults shortly after a variant has acted: where it decides otherwise than Kafka.

Most decisions that differ do no harm by themselves: it takes a crash or a lost message while their
effect lasts. Drawn faults seldom come at that moment. So a seed in which a variant acted, and
nothing failed, runs again with a few more faults that wait for it (the fact ``RuleActed``). The
same faults come in the run without the variant, at the same moment: there the variant is asked,
too, but does not decide (``running/node_settings.py``).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kafkasim.scenarios.language.files.data import as_data
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.searching.chains.anchor import Anchor
from kafkasim.scenarios.searching.chains.disturbances import DISTURBANCES
from kafkasim.scenarios.searching.chains.events import GONE, broker_away, controller_away
from kafkasim.scenarios.searching.chains.pace import Pace
from kafkasim.scenarios.searching.given.scene import scene
from kafkasim.scenarios.searching.shapes.apart import has_second_process, is_about_its_faults
from kafkasim.scenarios.searching.shapes.focus import Focus, ms
from kafkasim.scenarios.searching.sources.source import Source
from kafkasim.scenarios.variants.compose import overridden_by

AIMS = 2
"""So often a seed runs again, each time with another fault."""

LINKS = (1, 2, 2, 3)
"""How many events and disturbances follow one another."""

NOWHERE = ("client", "zookeeper")
"""Parts whose rules do not tell on which host they acted."""


@dataclass(frozen=True)
class Aimed:
    """The scenarios of another source, aimed at variants; ``attempt`` draws another fault each."""

    source: Source
    variants: tuple[str, ...]
    attempt: int

    @property
    def drawn_whole(self) -> bool:
        """As those of the source."""
        return self.source.drawn_whole

    def scenario(self, seed: int) -> Scenario:
        """Draw the fault, beside all that the source draws."""
        rng = random.Random(f"aimed/{seed}/{self.attempt}")
        return aim(self.source.scenario(seed), rng, self.variants)

    def mode(self, seed: int) -> str:
        """As that of the source."""
        return self.source.mode(seed)

    def command(self, seed: int, variants: Sequence[str] = ()) -> str:
        """The search of this seed comes to it again."""
        return self.source.command(seed, variants)


def may_be_aimed(scenario: Scenario) -> bool:
    """Return whether more faults may come: some scenarios are about the faults that they have."""
    data = {"expect": {}, **as_data(scenario)}
    apart = is_about_its_faults(data) or has_second_process(data)
    return bool(scenario.topics) and not apart


def aim(scenario: Scenario, rng: random.Random, variants: tuple[str, ...]) -> Scenario:
    """Return a scenario with a short chain of faults that begins when a variant has acted."""
    drawn, mode = scene(scenario), scenario.cluster.mode
    pace = Pace.of(rng, mode, drawn["cluster"]["config"], scenario.duration / 1000)
    focus = Focus.beside(rng, drawn, mode)
    when = {"fact": "RuleActed"}
    roles = [] if any(part in NOWHERE for part, _ in overridden_by(variants)) else ["@node"]
    after = 0.0
    for _ in range(rng.choice(LINKS)):
        after += rng.choice((0.1, 1.0, 5.0, 30.0, pace.near()))
        anchor, which = Anchor(after, when), rng.random()
        if which < 0.5:
            _somebody_away(rng, scenario, roles, focus, pace, anchor)
        elif which < 0.65:
            rng.choice((broker_away, controller_away))(focus, pace, anchor)
        else:
            rng.choice(DISTURBANCES[mode])(focus, pace, anchor)
    data = as_data(scenario)
    data["cluster"] = {**data.get("cluster", {}), "watched": list(variants)}
    for key in ("faults", "operations"):
        if drawn[key]:
            data[key] = [*data.get(key, []), *drawn[key]]
    return parse(data, scenario.name)


def _somebody_away(
    rng: random.Random,
    scenario: Scenario,
    roles: list[str],
    focus: Focus,
    pace: Pace,
    anchor: Anchor,
) -> None:
    """A host with one of these roles goes away, or one that leads or follows a partition."""
    topic = rng.choice(scenario.topics)
    partition = f"{topic.name}-{rng.randrange(topic.partitions)}"
    roles = [*roles, f"leader:{partition}"]
    if topic.replication_factor > 1:
        roles.append(f"follower:{partition}")
    fault: dict[str, Any] = {"kind": rng.choice(GONE), **anchor.at(), "node": rng.choice(roles)}
    focus.faults.append({**fault, "for": ms(pace.away()), "guarded": True})
