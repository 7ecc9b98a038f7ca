"""Configurations as the user names them, and as they run once they have been read and checked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.running import runner


@dataclass(frozen=True)
class Configuration:
    """One configuration of a fleet, as the user names it: a scenario with settings, or its twin.

    ``label`` is its name in ``runs``; without one it gets the scenario's name. ``seeds`` are its
    own, as text; without them it has those of all.
    """

    name: str
    settings: tuple[str, ...] = ()
    twin: bool = False
    variants: tuple[str, ...] = ()
    label: str = ""
    seeds: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the configuration as JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class FleetJob:
    """A configuration that was read and checked; all of its seeds run this."""

    label: str
    scenario: Scenario
    variants: tuple[str, ...]
    config_digest: str
    configuration: Configuration

    def run_name(self, seed: int) -> str:
        """Return the name of the run with a seed."""
        return f"{self.label}/seed-{seed:06d}"


def prepare(configurations: Sequence[Configuration]) -> list[FleetJob]:
    """Read and check configurations; two of one label get their digests as suffix.

    Raises:
        ScenarioError: naming file and key.
    """
    jobs = []
    for wanted in configurations:
        scenario, variants = library.scenario(wanted.name, wanted.settings, twin=wanted.twin)
        every = (*variants, *wanted.variants)
        digest = runner.config_digest(scenario, [*scenario.cluster.variants, *every])
        label = wanted.label or scenario.name + ("-twin" if wanted.twin else "")
        jobs.append(FleetJob(label, scenario, every, digest, wanted))
    labels = [job.label for job in jobs]
    return [
        replace(job, label=f"{job.label}-{job.config_digest[:8]}")
        if labels.count(job.label) > 1
        else job
        for job in jobs
    ]


def to_option(configurations: Iterable[Configuration]) -> str:
    """Return configurations as the data source's option ``configurations``."""
    return json.dumps([one.to_json() for one in configurations])


def from_options(options: Mapping[str, str]) -> list[Configuration]:
    """Return the configurations that options of the data source name.

    Either ``configurations`` has all of them, or ``scenario``, ``set.KEY``, ``twin``, ``variants``
    and ``label`` name one. Spark writes the names of options in lower case.

    Raises:
        ValueError: they name none, or not in that form.
    """
    if "configurations" in options:
        try:
            return [
                Configuration(
                    str(one["name"]), tuple(one.get("settings", ())), bool(one.get("twin", False)),
                    tuple(one.get("variants", ())), str(one.get("label", "")),
                    str(one.get("seeds", "")),
                )
                for one in json.loads(options["configurations"])
            ]  # fmt: skip
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(
                f"option configurations: no list of configurations ({error})"
            ) from None
    if "scenario" not in options:
        raise ValueError('option scenario is missing: .option("scenario", "split-brain")')
    settings = [
        f"{key.removeprefix('set.')}={options[key]}" for key in options if key.startswith("set.")
    ]
    variants = [name.strip() for name in options.get("variants", "").split(",") if name.strip()]
    twin = options.get("twin", "false").lower() == "true"
    label = options.get("label", "")
    return [Configuration(options["scenario"], tuple(settings), twin, tuple(variants), label)]
