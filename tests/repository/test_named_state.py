"""No state has numbers instead of names.

No check finds a column of the wrong table as long as both are numbers.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

EMULATOR = Path(__file__).parents[2] / "emulator"
ARRAYS = ("Ints", "Ints32", "NDArray", "Floats", "Bytes", "Blocks", "Heap", "Nodes", "Plan")
LONG = 5
"""So many values taken out of a parameter at once are a container's fields, not a pair or a row of figures."""
MAKERS = {"compiled", "inlined", "inner"}


def is_range(statement: ast.Assign) -> bool:
    """It names numbers of `range`, or of a constant that holds one."""
    value = statement.value
    held = value.id if isinstance(value, ast.Name) else value.attr if isinstance(value, ast.Attribute) else ""
    called = [each.func for each in ast.walk(value) if isinstance(each, ast.Call)]
    from_range = any(isinstance(each, ast.Name) and each.id == "range" for each in called)
    return isinstance(statement.targets[0], ast.Tuple) and (held.isupper() or from_range)


def constants_from_range(tree: ast.Module) -> Iterator[ast.AST]:
    """Names in capitals that a `range` gives their values."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and is_range(statement):
            targets = [each for target in statement.targets for each in ast.walk(target)]
            yield from (each for each in targets if isinstance(each, ast.Name) and each.id.isupper())


def kernels(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for each in ast.walk(tree):
        if isinstance(each, ast.FunctionDef) and MAKERS & {
            maker.id for maker in each.decorator_list if isinstance(maker, ast.Name)
        }:
            yield each


def containers(kernel: ast.FunctionDef) -> set[str]:
    """Parameters that hold several tables: they are no arrays and no numbers."""
    given = {each.arg: ast.unparse(each.annotation or ast.Constant("")) for each in kernel.args.args}
    plain = (*ARRAYS, "int", "float", "bool", "''")
    return {name for name, kind in given.items() if not kind.strip("'\"").startswith(plain)}


def is_number(index: ast.expr) -> bool:
    return isinstance(index, ast.Constant) and type(index.value) is int


def accesses_by_number(tree: ast.Module) -> Iterator[ast.AST]:
    """In compiled functions: a container's table by its place, and a row's column by a bare number."""
    for kernel in kernels(tree):
        whole = containers(kernel)
        named = {id(each.value) for each in ast.walk(kernel) if isinstance(each, ast.Attribute)}
        for each in ast.walk(kernel):
            if not isinstance(each, ast.Subscript) or id(each) in named:
                continue
            of_row = isinstance(each.slice, ast.Tuple) and not is_number(each.slice.elts[0])
            column = each.slice.elts[-1] if isinstance(each.slice, ast.Tuple) else each.slice
            of_container = isinstance(each.value, ast.Name) and each.value.id in whole
            if is_number(column) and (of_row or of_container):
                yield each


def taken_apart(tree: ast.Module) -> Iterator[ast.AST]:
    """In compiled functions: a container unpacked into names, which only their order tells apart."""
    for kernel in kernels(tree):
        whole = containers(kernel)
        for each in ast.walk(kernel):
            if (
                isinstance(each, ast.Assign)
                and isinstance(each.targets[0], ast.Tuple)
                and len(each.targets[0].elts) >= LONG
                and isinstance(each.value, ast.Name)
                and each.value.id in whole
            ):
                yield each


CHECKS = {
    "constants from range": constants_from_range,
    "accesses by number": accesses_by_number,
    "tuples taken apart by place": taken_apart,
}


def counted(text: str) -> Counter[str]:
    tree = ast.parse(text)
    return Counter({name: len(list(check(tree))) for name, check in CHECKS.items()})


PLANTED = """
AT, WHO = range(2)
BEGIN, END = EVERY
EVERY, FIRST = range(2), 3
SAME = BEGIN

@compiled
def kernel(state: State, heap: Ints, now: int) -> int:
    job, node, free, queue, registers = state
    first, second = state
    held[nodes[k], 0] = job[state[3][0], 2] + heap[0, AT] + heap[0] + node.shape[0] + plan[which, 0].at_us
    return state[1][now, WHO]

def in_python(state: State) -> int:
    return state[3]
"""


def test_numbers_instead_of_names_are_found():
    assert counted(PLANTED) == {
        "constants from range": 6,
        "accesses by number": 4,
        "tuples taken apart by place": 1,
    }


def test_no_numbers_stand_for_names():
    found = {str(path): some for path in EMULATOR.rglob("*.py") if (some := +counted(path.read_text()))}
    assert not found, "name what these numbers stand for"
