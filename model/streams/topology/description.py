"""The text of Topology.describe() (InternalTopologyBuilder.TopologyDescription).

Nodes are listed by the number of their descendants, which counts one that is reached over several
ways several times, and then by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkasim.model.group.assignors.java import java_order
from kafkasim.model.streams.topology.nodes import Node, ProcessorNode, SourceNode


def describe(nodes: Mapping[str, Node], groups: Sequence[Sequence[str]]) -> str:
    """Return the description of a topology's groups of connected nodes."""
    text = "Topologies:\n "
    for number, group in enumerate(groups):
        text += f"  Sub-topology: {number}\n{_described(nodes, group)}\n"
    return text


class _Described:
    """A node with its neighbours, each list in the order in which Kafka's TreeSet has them.

    The set compares by the number of descendants that is known when a neighbour is added, so its
    order follows from that of the HashMap of nodes.
    """

    def __init__(self, node: Node) -> None:
        self.node, self.size = node, 1
        self.predecessors: list[_Described] = []
        self.successors: list[_Described] = []

    def order(self) -> tuple[int, str]:
        """Return by what nodes are compared: more descendants first, then by name."""
        return -self.size, self.node.name

    def grow(self, by: int) -> None:
        """Count descendants, here and above."""
        self.size += by
        for predecessor in self.predecessors:
            predecessor.grow(by)


def _insert(neighbours: list[_Described], new: _Described) -> None:
    if new in neighbours:
        return
    place = 0
    while place < len(neighbours) and neighbours[place].order() < new.order():
        place += 1
    neighbours.insert(place, new)


def _described(nodes: Mapping[str, Node], group: Sequence[str]) -> str:
    names = java_order(java_order(group))  # of a HashSet, put into a HashMap
    described = {name: _Described(nodes[name]) for name in names}
    for each in described.values():
        for parent in each.node.parents:
            above = described[parent]
            _insert(each.predecessors, above)
            _insert(above.successors, each)
            above.grow(each.size)
    return "".join(
        [f"    {_line(each)}\n" for each in sorted(described.values(), key=_Described.order)]
    )


def _line(described: _Described) -> str:
    node = described.node
    successors = ", ".join(each.node.name for each in described.successors) or "none"
    predecessors = ", ".join(each.node.name for each in described.predecessors) or "none"
    if isinstance(node, SourceNode):
        topics = ", ".join(java_order(node.topics))
        return f"Source: {node.name} (topics: [{topics}])\n      --> {successors}"
    if isinstance(node, ProcessorNode):
        stores = ", ".join(java_order(node.stores))
        head = f"Processor: {node.name} (stores: [{stores}])"
        return f"{head}\n      --> {successors}\n      <-- {predecessors}"
    return f"Sink: {node.name} (topic: {node.topic})\n      <-- {predecessors}"
