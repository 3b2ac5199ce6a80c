"""Lists of node names in the short form."""

from __future__ import annotations

import pytest

from balancer.nodelist import NodeListError, expand, read_nodes


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("n[1,3-4],login", ["n1", "n3", "n4", "login"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
    ],
)
def test_patterns_are_written_out_in_order(text, names):
    assert expand(text) == names


@pytest.mark.parametrize(
    "text", ["", "n[", "n[]", "n[a-b]", "n[3-1]", "n 1", "n1,n1", "n[1-999999999]", "-x"]
)
def test_what_is_no_list_of_nodes_is_refused(text):
    with pytest.raises(NodeListError):
        expand(text)


def test_what_is_wrong_with_a_range_is_said():
    with pytest.raises(NodeListError, match="'3-1' is not a range from low to high"):
        expand("n[3-1]")
    with pytest.raises(NodeListError, match="'1-200000' is more than 100000 nodes"):
        expand("n[1-200000]")
    with pytest.raises(NodeListError, match="neither a number nor a range"):
        expand(f"n[{'9' * 5000}]")


def test_a_file_has_a_pattern_a_line_and_errors_name_it(tmp_path):
    path = tmp_path / "nodes"
    path.write_text("# rack 1\nn[01-02]\n\nn03 # new\n", encoding="utf-8")
    assert read_nodes(str(path)) == ["n01", "n02", "n03"]
    path.write_text("n01\nn[2-1]\n", encoding="utf-8")
    with pytest.raises(NodeListError, match="line 2"):
        read_nodes(str(path))


def test_a_file_that_is_not_there_is_no_node(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("nodes.txt", "hosts.conf", "etc/nodes"):
        with pytest.raises(NodeListError, match=f"^there is no node file {name}$"):
            read_nodes(name)
    assert read_nodes("n1.cluster.example") == ["n1.cluster.example"]


def test_a_node_that_comes_again_in_a_file_is_told_with_both_lines(tmp_path):
    path = tmp_path / "nodes.txt"
    path.write_text("n[1-3]\n# rack 2\nn4,n3\n")
    with pytest.raises(NodeListError, match=rf"^{path}, line 3: node n3 is listed in line 1 too$"):
        read_nodes(str(path))


def test_a_file_without_nodes_is_refused(tmp_path):
    path = tmp_path / "nodes.txt"
    path.write_text("# none yet\n")
    with pytest.raises(
        NodeListError, match=rf"^{path}: there is no node in it; write one name or pattern a line"
    ):
        read_nodes(str(path))
