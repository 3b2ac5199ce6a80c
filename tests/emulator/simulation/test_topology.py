"""Which sets of nodes a job may have."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.cluster.topology import BlueGeneQ, Flat, layout_of

MIRA = BlueGeneQ().layout(49_152)


def test_mira_offers_ten_sizes_from_a_midplane_to_the_machine():
    assert (MIRA.sizes * MIRA.unit_nodes).tolist() == [
        512, 1024, 2048, 4096, 8192, 12_288, 16_384, 24_576, 32_768, 49_152,
    ]  # fmt: skip
    counts = [sum(len(each) == size for each in MIRA.partitions) for size in MIRA.sizes]
    assert counts == [96, 48, 24, 12, 6, 4, 3, 2, 3, 1]


def test_a_partition_of_two_midplanes_has_two_children_and_lies_in_larger_ones():
    (place,) = [p for p, units in enumerate(MIRA.partitions) if units == (0, 1)]
    assert [MIRA.partitions[child] for child in MIRA.children(place)] == [(0,), (1,)]
    assert [len(MIRA.partitions[parent]) for parent in MIRA.parents(place)] == [
        4,
        8,
        16,
        24,
        32,
        48,
        64,
        64,
        96,
    ]
    assert MIRA.conflicting(place) == []


def test_a_row_and_half_of_all_rows_conflict_without_one_holding_the_other():
    row = next(p for p, units in enumerate(MIRA.partitions) if len(units) == 32)
    assert {len(MIRA.partitions[other]) for other in MIRA.conflicting(row)} == {24, 48}


def test_two_of_three_rows_go_round_the_torus():
    assert sum(len(units) == 64 for units in MIRA.partitions) == 3


def test_a_job_gets_the_least_partition_that_is_large_enough():
    nodes = np.array([1, 512, 513, 5000, 20_000, 49_152], np.int32)
    assert (MIRA.units_for(nodes) * 512).tolist() == [512, 512, 1024, 8192, 24_576, 49_152]
    assert Flat(unit_nodes=16).layout(64).units_for(np.array([1, 17], np.int32)).tolist() == [1, 2]


def test_a_job_wider_than_the_machine_fits_nowhere():
    with pytest.raises(ValueError, match="a job of 49153 nodes fits nowhere: the largest place has 49152"):
        MIRA.units_for(np.array([49_153], np.int32))


extents = st.integers(1, 4)


@st.composite
def tori(draw: st.DrawFn) -> BlueGeneQ:
    torus = (draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(extents), draw(extents))
    shapes = draw(
        st.lists(st.tuples(*(st.integers(1, whole) for whole in torus)), min_size=1, max_size=5, unique=True)
    )
    return BlueGeneQ(torus, tuple(shapes))


@settings(max_examples=60)
@given(tori())
def test_partitions_have_the_sizes_of_their_shapes_and_overlap_is_sharing_a_unit(torus: BlueGeneQ):
    units = int(np.prod(torus.torus))
    layout = torus.layout(units * 512)
    assert {len(each) for each in layout.partitions} == {int(np.prod(shape)) for shape in torus.shapes}
    assert [len(each) for each in layout.partitions] == sorted(len(each) for each in layout.partitions)
    for p, q in product(range(len(layout.partitions)), repeat=2):
        one, other = set(layout.partitions[p]), set(layout.partitions[q])
        assert layout.overlap[p, q] == bool(one & other)
        if p != q and one & other:
            related = (q in layout.children(p), q in layout.parents(p), q in layout.conflicting(p))
            assert related == (other < one, one < other, not (other < one or one < other)) or one == other
    for shape in torus.shapes:
        covered = set().union(*(each for each in layout.partitions if len(each) == int(np.prod(shape))))
        assert covered == set(range(units))


@pytest.mark.parametrize(
    ("item", "nodes", "message"),
    [
        ("blue_gene_q", 1000, "a torus of 2 x 3 x 4 x 4 midplanes has 49152 nodes, the machine has 1000"),
        ({"blue_gene_q": {"torus": [1, 1, 2]}}, 1024, "torus: four extents in midplanes"),
        ({"blue_gene_q": {"torus": [1, 1, 1, 2]}}, 1024, "exceeds the torus"),
        ({"blue_gene_q": {"shapes": []}}, 49_152, "shapes must not be empty"),
        ({"flat": {"unit_nodes": 7}}, 64, "64 nodes cannot be cut into units of 7"),
        ("dragonfly", 64, "there is no topology 'dragonfly'"),
    ],
)
def test_what_is_wrong_with_a_topology_is_said(item: object, nodes: int, message: str):
    with pytest.raises(ValueError, match=message):
        layout_of(item, nodes)
