"""Made worlds for claims: no run behind them, any label, any figure."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping

import numpy as np

from emulator.experiments.claims import World
from emulator.metrics.heat import LENGTH_EDGES_S, SIZE_EDGES

_SAMPLES = 4
_HEAT = json.dumps(np.ones((len(SIZE_EDGES), len(LENGTH_EDGES_S), 2)).tolist())


class Row(Mapping):
    """A run's figures, each what `figure` says for its name."""

    def __init__(self, figure):
        self._figure = figure

    def __getitem__(self, name):
        return _HEAT if name.endswith(".heat") else self._figure(name)

    def get(self, name, default=None):
        return self[name]

    def __iter__(self):
        return iter(())

    def __len__(self):
        return 0


class Rows(Mapping):
    """Every run that anybody asks for; of samples, which are asked for until there are no more, the first ones."""

    def __init__(self, figure):
        self._figure = figure

    def get(self, label, default=None):
        _, percent, sample = ("", "", *label.split("/"))[-3:]
        is_beyond = percent.isdigit() and sample.isdigit() and int(sample) >= _SAMPLES
        return default if is_beyond else self[label]

    def __getitem__(self, label):
        return Row(lambda name: self._figure(label, name))

    def __contains__(self, label):
        return True

    def __iter__(self):
        return iter(())

    def __len__(self):
        return 0


def null_worlds(count: int) -> list[World]:
    """Every run has the same figures, whatever was done in it; only the traces differ."""
    return [_null_world(seed) for seed in range(count)]


def _null_world(seed: int) -> World:
    return World(seed, Rows(lambda label, name: random.Random(f"{seed} {name}").uniform(0.3, 0.9)))


def noisy_worlds(count: int, world: int) -> list[World]:
    """Every run has figures of its own, from the same distribution: whatever was done in it, chance alone decides."""
    return [_noisy_world(seed, world) for seed in range(count)]


def _noisy_world(seed: int, world: int) -> World:
    def figure(label, name):
        return random.Random(f"{world} {seed} {label} {name}").lognormvariate(-0.5, 0.2)

    return World(seed, Rows(figure))
