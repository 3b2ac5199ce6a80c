"""Formulas of performance models: numbers and names with `+`, `-`, `*`, `/`, `^` and brackets."""

from __future__ import annotations

import ast
import math
import operator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: math.pow,
}


def formula_value(text: str, values: Mapping[str, float]) -> float:
    """What a formula comes to with these values of its names. Raises ValueError for what is none.

    >>> formula_value("rounds*(num_nodes/2)^2", {"rounds": 3, "num_nodes": 8})
    48.0
    """
    try:
        return _value(ast.parse(text.strip().replace("^", "**"), mode="eval").body, values)
    except (SyntaxError, ArithmeticError, RecursionError, MemoryError) as error:
        raise ValueError(f"{text!r} has no value: {error}") from error


def _value(node: ast.expr, values: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return float(number)
        case ast.Name(id=name) if name in values:
            return float(values[name])
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, values)
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _OPERATIONS:
            return _OPERATIONS[type(operation)](_value(left, values), _value(right, values))
        case _:
            raise ValueError(f"{ast.unparse(node)!r} is no number, name or sum")
