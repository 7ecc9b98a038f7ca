"""The text of Topology.describe() (InternalTopologyBuilder.TopologyDescription).

Nodes are listed by the number of their descendants, which counts one that is reached over several
ways several times, and then by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkasim.model.streams.topology.nodes import Node, ProcessorNode, SourceNode


def describe(nodes: Mapping[str, Node], groups: Sequence[Sequence[str]]) -> str:
    """Return the description of a topology's groups of connected nodes."""
    text = "Topologies:\n "
    for number, group in enumerate(groups):
        text += f"  Sub-topology: {number}\n{_described(nodes, group)}\n"
    return text


def _described(nodes: Mapping[str, Node], group: Sequence[str]) -> str:
    children: dict[str, list[str]] = {name: [] for name in group}
    for name in group:
        for parent in nodes[name].parents:
            children[parent].append(name)
    sizes: dict[str, int] = {}
    for name in reversed(group):  # a parent is added before its children
        sizes[name] = 1 + sum([sizes[child] for child in children[name]])

    def listed(names: Sequence[str]) -> list[str]:
        return sorted(dict.fromkeys(names), key=lambda name: (-sizes[name], name))

    def shown(names: Sequence[str]) -> str:
        return ", ".join(listed(names)) or "none"

    return "".join(
        [f"    {_line(nodes[name], shown(children[name]), shown(nodes[name].parents))}\n"
         for name in listed(group)]
    )  # fmt: skip


def _line(node: Node, successors: str, predecessors: str) -> str:
    if isinstance(node, SourceNode):
        topics = ", ".join(node.topics)
        return f"Source: {node.name} (topics: [{topics}])\n      --> {successors}"
    if isinstance(node, ProcessorNode):
        stores = ", ".join(node.stores)
        head = f"Processor: {node.name} (stores: [{stores}])"
        return f"{head}\n      --> {successors}\n      <-- {predecessors}"
    return f"Sink: {node.name} (topic: {node.topic})\n      <-- {predecessors}"
