"""Functions by Spark's name. Each family registers its builders here when its module is imported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.model.types import DataType, simple_string
from tidegate.operators.expressions.compiled import Built, Compiled
from tidegate.plan.expressions import Call, Literal, Scalar

Supports = Callable[[Call], str | None]
"""Why a call is not supported, or None."""


@dataclass(frozen=True, slots=True)
class Strict:
    """Null when any argument is null (unless the builder says otherwise); arguments are evaluated left to right."""

    build: Callable[..., Built]
    supports: Supports
    right_first: bool = False
    """Spark evaluates the second argument first and skips the other if it is null (division)."""
    null_skips: bool = True
    """A null argument keeps Spark from evaluating the ones after it, so their errors do not count."""


@dataclass(frozen=True, slots=True)
class Branching:
    """Decides itself which arguments a row evaluates, so it handles the guards of its arguments."""

    build: Callable[[Call, Sequence[Compiled]], Compiled]
    supports: Supports


@dataclass(frozen=True, slots=True)
class HigherOrder:
    """Takes lambdas: ``build(call, other arguments, bodies of the lambdas)``."""

    build: Callable[..., Compiled]
    supports: Supports


Entry = Strict | Branching | HigherOrder
FUNCTIONS: dict[str, Entry] = {}
ALIASES: dict[str, str] = {}


def anything(_: Call) -> str | None:
    return None


def function(
    name: str, *aliases: str, supports: Supports = anything, right_first: bool = False, null_skips: bool = True
) -> Callable[[Callable[..., Built]], Callable[..., Built]]:
    """Registers ``build(call, *argument expressions)`` under Spark's name."""

    def register(build: Callable[..., Built]) -> Callable[..., Built]:
        _add(name, aliases, Strict(build, supports, right_first, null_skips))
        return build

    return register


def plain(
    name: str, *aliases: str, supports: Supports = anything, right_first: bool = False, null_skips: bool = True
) -> Callable[[Callable[..., Built]], Callable[..., Built]]:
    """Registers ``build(*argument expressions)``: for functions that need to know nothing else about the call."""

    def register(build: Callable[..., Built]) -> Callable[..., Built]:
        _add(name, aliases, Strict(lambda _, *args: build(*args), supports, right_first, null_skips))
        return build

    return register


def branching(name: str, *aliases: str, supports: Supports = anything) -> Callable[[Any], Any]:
    """Registers ``build(call, compiled arguments)``."""

    def register(build: Any) -> Any:
        _add(name, aliases, Branching(build, supports))
        return build

    return register


def higher_order(name: str, *aliases: str, supports: Supports = anything) -> Callable[[Any], Any]:
    """Registers a function that takes lambdas."""

    def register(build: Any) -> Any:
        _add(name, aliases, HigherOrder(build, supports))
        return build

    return register


def _add(name: str, aliases: tuple[str, ...], entry: Entry) -> None:
    if name in FUNCTIONS or name in ALIASES:
        raise ValueError(f"function {name} is registered twice")
    FUNCTIONS[name] = entry
    for alias in aliases:
        if alias in FUNCTIONS or alias in ALIASES:
            raise ValueError(f"alias {alias} is registered twice")
        ALIASES[alias] = name


def canonical(name: str) -> str:
    """Spark's name, or the one we file it under."""
    lowered = name.lower()
    return ALIASES.get(lowered, lowered)


# -- what builders say about the arguments they take --------------------------------------------------------------------


def argument(call: Call, index: int) -> Scalar:
    """The constant that stands at ``index``; only after ``constants`` has accepted the call."""
    literal = call.args[index]
    assert isinstance(literal, Literal)
    return literal.value


def optional(call: Call, index: int, default: Scalar) -> Scalar:
    return argument(call, index) if len(call.args) > index else default


def constants(*indexes: int, also: Supports = anything) -> Supports:
    """Arguments at ``indexes`` (when given) must be constants, and not null."""

    def supports(call: Call) -> str | None:
        for index in indexes:
            if index < len(call.args):
                literal = call.args[index]
                if not isinstance(literal, Literal):
                    return f"{call.function} needs a constant as argument {index + 1}"
                if literal.value is None:
                    return f"{call.function} does not take null as argument {index + 1}"
        return also(call)

    return supports


def takes(*kinds: DataType | type, arguments: tuple[int, ...] | None = None, also: Supports = anything) -> Supports:
    """Arguments (all, or those at ``arguments``) must be of one of these types or type classes."""

    def supports(call: Call) -> str | None:
        indexes = range(len(call.args)) if arguments is None else arguments
        for index in indexes:
            if index >= len(call.args):
                continue
            of = call.args[index].type
            if not any(isinstance(of, kind) if isinstance(kind, type) else of == kind for kind in kinds):
                return f"{call.function} is not supported for {simple_string(of)}"
        return also(call)

    return supports


def arity(least: int, most: int | None = None, also: Supports = anything) -> Supports:
    def supports(call: Call) -> str | None:
        count = len(call.args)
        if count < least or count > (least if most is None else most):
            return f"{call.function} with {count} arguments is not supported"
        return also(call)

    return supports
