"""A topology: which sets of nodes a job may have, for mechanisms that ask (`realtime`)."""

from dataclasses import dataclass

from emulator.cluster.topology import Layout


@dataclass(frozen=True, slots=True)
class Racks:
    """Whole racks of `rack_nodes` nodes; any set of racks will do."""

    rack_nodes: int = 4

    def layout(self, node_count: int) -> Layout:
        if node_count % self.rack_nodes:
            raise ValueError(f"{node_count} nodes are no whole number of racks of {self.rack_nodes}")
        return Layout(units=node_count // self.rack_nodes, unit_nodes=self.rack_nodes)
