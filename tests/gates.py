"""How much of a test that could go on for ever is done: the gates of the list of invariants.

`BALANCER_TEST_GATE=night` runs the large sizes (`scripts/nightly`); without it a change's. `releases` is a change's on
each release of Slurm (`benchmarks/slurm_abilities.py`). The table is in `docs/testing.md`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A field a size, named for its test. `patience`: how many times longer than a change's a test may take."""

    patience: int = 1

    small_worlds: int = 48
    large_worlds: int = 2
    crashes_a_point: int = 6
    kills: int = 100
    power_cut_workloads: int = 1
    model_examples: int = 100
    model_steps: int = 50
    race_writers: int = 8
    race_steps: int = 150
    key_rounds: int = 1
    random_hook_orders: int = 500
    mutations: int = 20_000
    backwards_seeds: int = 20
    partition_pairs: int = 12
    clock_seeds: int = 1
    takeovers: int = 20
    outage_seeds: int = 1
    fuzz_examples: int = 30
    fuzzed_files: int = 25  # of each reader
    reference_workloads: int = 60
    counted_workloads: int = 5
    random_sites: range = range(5, 8)
    whole_runs: int = 72
    bit_flips: int = 300
    slurm_outage_s: int = 5
    slurm_releases: tuple[str, ...] = ("26.05",)  # beside that of the machine: driver, service, one day
    slurm_releases_of_all: tuple[str, ...] = ()  # whatever else runs on the real one
    slurm_load_s: int = 60
    database_outage_s: int = 20  # longer than the lease
    nova_storm_s: int = 60
    nova_rounds: int = 3
    every_speed: bool = False


_EACH_SLURM = ("22.05", "24.11", "26.05")

GATES = {
    "change": Gate(),
    "releases": Gate(slurm_releases=_EACH_SLURM, slurm_releases_of_all=_EACH_SLURM),
    "night": Gate(
        patience=100,
        small_worlds=200,
        large_worlds=20,
        crashes_a_point=1000,
        kills=5000,
        power_cut_workloads=50,
        model_examples=20_000,
        model_steps=100,
        race_writers=32,
        race_steps=5000,
        key_rounds=100,
        random_hook_orders=50_000,
        mutations=1_000_000,
        backwards_seeds=2000,
        partition_pairs=1128,
        clock_seeds=100,
        takeovers=2000,
        outage_seeds=25,
        fuzz_examples=2000,
        fuzzed_files=1100,
        reference_workloads=5000,
        counted_workloads=500,
        random_sites=range(200),
        whole_runs=20_000,
        bit_flips=10_000,
        slurm_outage_s=60,
        slurm_releases=_EACH_SLURM,
        slurm_releases_of_all=_EACH_SLURM,
        slurm_load_s=600,
        database_outage_s=60,
        nova_storm_s=1800,
        nova_rounds=20,
        every_speed=True,
    ),
}

_NAME = os.environ.get("BALANCER_TEST_GATE", "change")
GATE = GATES[_NAME]
IS_CHANGE = _NAME == "change"
