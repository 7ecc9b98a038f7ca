"""Topologies as a scenario file has them: chains of steps, and expressions in place of code."""

from kafkasim.model.streams.declared.building import Load, build, topology_of
from kafkasim.model.streams.declared.expressions import Expression
from kafkasim.model.streams.declared.parsing import Chain, Step, parse

__all__ = ["Chain", "Expression", "Load", "Step", "build", "parse", "topology_of"]
