"""Pickles read without an unpickler: a small machine that carries out their instructions on records of what they want.

Nothing is imported, called or hashed, and nothing is as large as the pickle says that it is: dictionaries and sets are lists of what was
put into them, what is remembered is a dictionary, and every step costs what its own bytes are.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

STEPS_MAX = 2_000_000
_MARK = object()


@dataclass(frozen=True, slots=True)
class Named:
    """A class or function that a pickle names, or ships by value."""

    module: str
    qualname: str


@dataclass(eq=False, slots=True)
class Record:
    """What a pickle wanted to make: by calling ``maker``, which may itself be a record."""

    maker: Named | Record
    args: tuple[Any, ...]
    states: list[Any] = field(default_factory=list)
    """Meant for ``__setstate__``."""
    pairs: list[tuple[Any, Any]] = field(default_factory=list)
    """Meant to be put into it."""


@dataclass(eq=False, slots=True)
class Pairs:
    """A dictionary."""

    items: list[tuple[Any, Any]] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Members:
    """A set."""

    kind: type[Any]
    items: list[Any] = field(default_factory=list)


def load(data: bytes) -> Any:
    """Raises ValueError for whatever is no pickle of values."""
    machine = _Machine()
    for steps, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        if steps >= STEPS_MAX:
            raise ValueError(f"it is a pickle of more than {STEPS_MAX} steps")
        if opcode.name == "STOP":
            return machine.pop()
        machine.step(opcode.name, argument)
    raise ValueError("it has no end")


class _Machine:
    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def pop(self) -> Any:
        if not self._stack or self._stack[-1] is _MARK:
            raise ValueError("it takes what is not there")
        return self._stack.pop()

    def step(self, name: str, argument: Any) -> None:
        if name in _VALUES:
            self._stack.append(argument)
        elif name in _MADE:
            self._stack.append(_MADE[name]())
        elif name in _PUTS:
            self._memo[int(argument)] = self._top()
        elif name in _GETS:
            self._stack.append(self._remembered(int(argument)))
        elif name in _STEPS:
            _STEPS[name](self, argument)
        else:
            raise ValueError(f"it has an instruction {name}, of which no value is made")

    def memoize(self, _: Any) -> None:
        self._memo[len(self._memo)] = self._top()

    def mark(self, _: Any) -> None:
        self._stack.append(_MARK)

    def discard(self, _: Any) -> None:
        if self._stack and self._stack[-1] is _MARK:
            self._stack.pop()
        else:
            self.pop()

    def discard_to_mark(self, _: Any) -> None:
        self._to_mark()

    def duplicate(self, _: Any) -> None:
        self._stack.append(self._top())

    def tuple_of(self, count: int | None) -> None:
        items = self._to_mark() if count is None else [self.pop() for _ in range(count)][::-1]
        self._stack.append(tuple(items))

    def list_of(self, _: Any) -> None:
        self._stack.append(self._to_mark())

    def dict_of(self, _: Any) -> None:
        self._stack.append(Pairs(_pairs(self._to_mark())))

    def frozen(self, _: Any) -> None:
        self._stack.append(Members(frozenset, self._to_mark()))

    def append(self, _: Any) -> None:
        item = self.pop()
        self._extend([item])

    def appends(self, _: Any) -> None:
        self._extend(self._to_mark())

    def set_item(self, _: Any) -> None:
        value, key = self.pop(), self.pop()
        self._put([(key, value)])

    def set_items(self, _: Any) -> None:
        self._put(_pairs(self._to_mark()))

    def named(self, argument: str) -> None:
        module, _, qualname = argument.partition(" ")
        self._stack.append(Named(module, qualname))

    def named_by_stack(self, _: Any) -> None:
        qualname, module = self.pop(), self.pop()
        if type(qualname) is not str or type(module) is not str:
            raise ValueError("it names something by what is no name")
        self._stack.append(Named(module, qualname))

    def call(self, _: Any) -> None:
        args, maker = self.pop(), self.pop()
        self._make(maker, args)

    def call_with_keywords(self, _: Any) -> None:
        named, args, maker = self.pop(), self.pop(), self.pop()
        if not isinstance(named, Pairs) or named.items:
            raise ValueError("it calls something with keywords")
        self._make(maker, args)

    def build(self, _: Any) -> None:
        state, made = self.pop(), self._top()
        if isinstance(made, Record):
            made.states.append(state)
        elif not isinstance(made, Named):  # Of a class that is shipped by value: its own is used.
            raise ValueError(f"it gives a state to {type(made).__name__}")

    def _make(self, maker: Any, args: Any) -> None:
        if type(args) is not tuple or not isinstance(maker, Named | Record):
            raise ValueError("it calls what is no name")
        self._stack.append(_by_value(maker, args) or Record(maker, args))

    def _extend(self, items: list[Any]) -> None:
        match self._top():
            case list() as known:
                known += items
            case Members(items=known):
                known += items
            case Record(pairs=known):
                known += [(None, item) for item in items]
            case other:
                raise ValueError(f"it adds to {type(other).__name__}")

    def _put(self, pairs: list[tuple[Any, Any]]) -> None:
        match self._top():
            case Pairs(items=known):
                known += pairs
            case Record(pairs=known):
                known += pairs
            case other:
                raise ValueError(f"it puts something into {type(other).__name__}")

    def _top(self) -> Any:
        if not self._stack or self._stack[-1] is _MARK:
            raise ValueError("it takes what is not there")
        return self._stack[-1]

    def _remembered(self, number: int) -> Any:
        if number not in self._memo:
            raise ValueError(f"it refers to number {number}, which is not in it")
        return self._memo[number]

    def _to_mark(self) -> list[Any]:
        """What lies above the last mark, in order."""
        items: list[Any] = []
        while self._stack and self._stack[-1] is not _MARK:
            items.append(self._stack.pop())
        if not self._stack:
            raise ValueError("it takes what is not there")
        self._stack.pop()
        return items[::-1]


def _pairs(items: list[Any]) -> list[tuple[Any, Any]]:
    return list(zip(items[::2], items[1::2], strict=True))


def _by_value(maker: Named | Record, args: tuple[Any, ...]) -> Named | None:
    """The class that cloudpickle ships with its code: ``_make_skeleton_class(metaclass, name, bases, {"__module__": …}, …)``, and
    ``_make_skeleton_enum(bases, name, qualname, members, module, …)``."""
    if not isinstance(maker, Named) or not maker.module.endswith("cloudpickle"):
        return None
    match maker.qualname, args:
        case "_make_skeleton_class", (_, str(name), _, Pairs(items), *_):
            modules = [value for key, value in items if key == "__module__" and type(value) is str]
            return Named(next(iter(modules), ""), name)
        case "_make_skeleton_enum", (_, _, str(qualname), _, str(module), *_):
            return Named(module, qualname)
        case _:
            return None


_VALUES = frozenset(
    [
        "INT",
        "BININT",
        "BININT1",
        "BININT2",
        "LONG",
        "LONG1",
        "LONG4",
        "STRING",
        "BINSTRING",
        "SHORT_BINSTRING",
        "BINBYTES",
        "SHORT_BINBYTES",
        "BINBYTES8",
        "BYTEARRAY8",
        "UNICODE",
        "SHORT_BINUNICODE",
        "BINUNICODE",
        "BINUNICODE8",
        "FLOAT",
        "BINFLOAT",
    ]
)
_MADE: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_DICT": Pairs,
    "EMPTY_SET": lambda: Members(set),
}
_PUTS = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
_GETS = frozenset({"GET", "BINGET", "LONG_BINGET"})
_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    "PROTO": lambda _machine, _: None,
    "FRAME": lambda _machine, _: None,
    "MEMOIZE": _Machine.memoize,
    "MARK": _Machine.mark,
    "POP": _Machine.discard,
    "POP_MARK": _Machine.discard_to_mark,
    "DUP": _Machine.duplicate,
    "TUPLE": lambda machine, _: machine.tuple_of(None),
    "TUPLE1": lambda machine, _: machine.tuple_of(1),
    "TUPLE2": lambda machine, _: machine.tuple_of(2),
    "TUPLE3": lambda machine, _: machine.tuple_of(3),
    "LIST": _Machine.list_of,
    "DICT": _Machine.dict_of,
    "FROZENSET": _Machine.frozen,
    "APPEND": _Machine.append,
    "APPENDS": _Machine.appends,
    "ADDITEMS": _Machine.appends,
    "SETITEM": _Machine.set_item,
    "SETITEMS": _Machine.set_items,
    "GLOBAL": _Machine.named,
    "STACK_GLOBAL": _Machine.named_by_stack,
    "REDUCE": _Machine.call,
    "NEWOBJ": _Machine.call,
    "NEWOBJ_EX": _Machine.call_with_keywords,
    "BUILD": _Machine.build,
}
