"""A predictor: how many nodes the Balancer should have in reserve in a slot of the day."""

from dataclasses import dataclass

from balancer.predictors.interface import History


@dataclass(frozen=True, slots=True)
class Always:
    """The same number of `nodes` in every slot."""

    nodes: int = 1

    def predict(self, history: History, slot: int) -> int:
        return self.nodes
