"""What a stored run was like, for the commands: its state at a moment, and why it failed.

What analysis does not know of a scenario is given to it here: the manifest as this code reads it,
the hosts of the controllers, and which of Kafka's rules a variant has replaced.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from kafkasim.analysis.explain import explain as explaining
from kafkasim.analysis.explain.chain import Explanation
from kafkasim.analysis.figures.state import ClusterState, cluster_at
from kafkasim.scenarios.language.files.applications import check_unchanged
from kafkasim.scenarios.language.files.rules import shown
from kafkasim.scenarios.language.nodes import controller_hosts
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.moments import moment_us
from kafkasim.scenarios.running.one_cluster import WHOLE
from kafkasim.scenarios.running.replay import added_variants, stored_scenario
from kafkasim.scenarios.running.runner import ScenarioRun
from kafkasim.scenarios.variants.compose import variant_of
from kafkasim.scenarios.variants.own_loading import own_rules_named
from kafkasim.scenarios.variants.variant import VariantError
from kafkasim.sim.trace.reading import last_moment
from kafkasim.sim.trace.store import code_version, read_manifest


def state_at(directory: Path, at: str, logs: bool = False) -> ClusterState:
    """Return the state of a stored run at a moment; ``logs`` with what each replica's log holds.

    The sizes of logs are in no fact: the run is repeated up to that moment.

    Raises:
        ManifestError: there is no whole run in the directory.
        MomentError: the run has no such moment.
    """
    manifest = read_manifest(directory)
    if "spec" in manifest:
        manifest = stored_scenario(directory)[1]  # or name what is wrong in it
    cluster = manifest.get("spec", {}).get("cluster", {})
    count = (cluster.get("controllers") or 0) + cluster.get("standby-controllers", 0)
    hosts = controller_hosts(count, cluster.get("combined", 0))
    at_us = moment_us(at, manifest, last_moment(directory))
    state = cluster_at(directory, manifest, hosts, at_us, logs)
    if logs and manifest.get("code_version") == code_version() and "journal" not in manifest:
        state.log_sizes = _sizes_at(directory, at_us)
    return state


class _Reached(Exception):
    """The moment up to which a run is repeated."""


def _sizes_at(directory: Path, at_us: int) -> dict[tuple[str, tuple[str, int]], int]:
    """Return the size in bytes of each log at a moment of a run's cluster, by its node."""
    scenario, manifest = stored_scenario(directory)
    whole, name = manifest.get(WHOLE, {}), ""
    if whole:
        scenario, name = parse(whole["spec"], str(directory)), whole["cluster"]
    check_unchanged(scenario, str(directory))
    with own_rules_named(manifest["seed"]):
        run = ScenarioRun(scenario, manifest["seed"], None, added_variants(scenario, manifest))

        def reach() -> None:
            raise _Reached

        run.world.at(at_us, reach)
        with suppress(_Reached):
            run.execute()
    sizes = {}
    cluster = run.members[name].cluster
    for host in cluster.brokers:
        process = cluster.broker_process(host.name)
        for tp, partition in ({} if process is None else process.replicas.partitions).items():
            if not partition.offline:
                log = partition.log
                sizes[host.name, (log.topic_id, tp.partition)] = log.size
    return sizes


def explain(directory: Path, wanted: str | None = None) -> tuple[list[Explanation], int]:
    """Return why a stored run failed (``wanted``: one anomaly), and when it was ready, in µs.

    Raises:
        ManifestError: there is no whole run in the directory, or it was stored without findings.
        ScenarioError: this code cannot read its scenario.
    """
    manifest = stored_scenario(directory)[1]
    in_force = [_in_force(variant) for variant in manifest["variants"]]
    explained = explaining.explain(directory, manifest, in_force, wanted)
    return explained, int(manifest.get("ready_us", 0))


def _in_force(name: str) -> str:
    """Return which rule a variant has replaced, and what holds instead of it, or else.

    A file of rules may be another one than when the run was made: then only its name is told.
    """
    try:
        variant = variant_of(name)
    except VariantError:
        return f"{shown(name)} is in force."
    if variant.scenario:
        rule = f"{variant.id} ({variant.source}) is in force, and Kafka's rule is not:"
        return f"{rule} {variant.claim}"
    replaced = ", ".join(".".join(rule) for rule in variant.overridden())
    end = f": {variant.claim}" if variant.claim else "."
    return f"{variant.id} is in force, in place of Kafka's {replaced}{end}"
