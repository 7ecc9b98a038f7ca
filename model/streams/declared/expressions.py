"""Expressions of a topology: a part of Python's, over the names that a step gives.

Numbers, texts, `[…]`, `{…}`, `x['field']`, arithmetic, comparisons, `and`, `or`, `not`,
`a if b else c`, `x in y`, and some functions. An expression cannot change what it is given.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from kafkasim.model.streams.processors.context import StreamsFailure

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "int": int,
    "len": len,
    "max": max,
    "min": min,
    "str": str,
}

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.In: "in", ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not",
    ast.And: "and", ast.Or: "or", ast.Not: "not", ast.USub: "neg",
}  # fmt: skip


class Expression:
    """A function of some names, in one line of text.

    ``tree`` is the same as nested lists, for programs in other languages: an operator or function
    with its arguments, `["name", x]`, `["constant", x]`, `["list", …]`, `["dict", key, value, …]`,
    `["get", x, y]`, `["if", condition, x, y]`.
    """

    def __init__(self, text: str, names: tuple[str, ...]) -> None:
        """``names`` are those of the function's parameters, in their order.

        Raises:
            ValueError: it is no such expression; the line says what is allowed.
        """
        self.text, self.names = text, names
        try:
            parsed = ast.parse(text.strip(), mode="eval")
        except (SyntaxError, ValueError):
            raise ValueError(f"{text!r} is no expression; allowed: {self._allowed()}") from None
        self.tree = self._tree(parsed.body)
        made = ast.Lambda(
            args=ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, []),
            body=parsed.body,
        )
        code = compile(ast.fix_missing_locations(ast.Expression(made)), "<expression>", "eval")
        self._function: Callable[..., Any] = eval(code, {"__builtins__": {}, **FUNCTIONS})

    def __call__(self, *values: Any) -> Any:
        """Return the value of the expression.

        Raises:
            StreamsFailure: it has none, such as None + 1.
        """
        try:
            return self._function(*values)
        except (TypeError, KeyError, IndexError, ValueError, ZeroDivisionError) as error:
            given = ", ".join(f"{name}={value!r}" for name, value in zip(self.names, values))
            raise StreamsFailure(f"{self.text}: {error} (with {given})") from error

    def _allowed(self) -> str:
        return (
            f"the names {', '.join(self.names)}, constants, [], {{}}, x[y], arithmetic, "
            f"comparisons, and, or, not, if-else, {', '.join(FUNCTIONS)}"
        )

    def _tree(self, node: ast.AST) -> list[Any]:
        tree = self._tree
        match node:
            case ast.Constant(value=None | int() | str()):
                return ["constant", node.value]
            case ast.Name() if node.id in self.names:
                return ["name", node.id]
            case ast.List() | ast.Tuple():
                return ["list", *map(tree, node.elts)]
            case ast.Dict() if None not in node.keys:
                pairs = zip(node.keys, node.values)
                return ["dict", *(tree(each) for pair in pairs for each in pair if each)]
            case ast.Subscript():
                return ["get", tree(node.value), tree(node.slice)]
            case ast.IfExp():
                return ["if", tree(node.test), tree(node.body), tree(node.orelse)]
            case ast.BoolOp():
                return [_OPERATORS[type(node.op)], *map(tree, node.values)]
            case ast.BinOp() if type(node.op) in _OPERATORS:
                return [_OPERATORS[type(node.op)], tree(node.left), tree(node.right)]
            case ast.UnaryOp() if type(node.op) in _OPERATORS:
                return [_OPERATORS[type(node.op)], tree(node.operand)]
            case ast.Compare() if len(node.ops) == 1:
                operator = _OPERATORS[type(node.ops[0])]
                return [operator, tree(node.left), tree(node.comparators[0])]
            case ast.Call(func=ast.Name(id=name), keywords=[]) if name in FUNCTIONS:
                return [name, *map(tree, node.args)]
        raise ValueError(
            f"{ast.unparse(node)!r} is not allowed in {self.text!r}; allowed: {self._allowed()}"
        )
