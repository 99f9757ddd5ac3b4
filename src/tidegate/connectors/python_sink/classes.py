"""Which classes the objects in a commit message may have: those that the user's own sink refers to, found without asking stored data."""

from __future__ import annotations

import enum
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass
from inspect import get_annotations
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, DataSourceStreamWriter, WriterCommitMessage

_NOT_DATA = (DataSource, DataSourceStreamWriter, DataSourceStreamArrowWriter, ModuleType, type)
_LIBRARIES = frozenset({"builtins", "pyspark", *sys.stdlib_module_names}) - {"__main__"}


class MessageClasses:
    """Found by reference: in what the methods of the writer and of its data source refer to, and in the modules of both. No module is
    imported, so the answer is the same in a slot, on the driver and after a restart.

    A class that defines ``__del__`` is not among them: it would run over fields that stored data has chosen.
    """

    def __init__(self, *roots: object) -> None:
        """``roots``: the user's writer and data source."""
        self._classes: tuple[type[Any], ...] = (WriterCommitMessage, *_Search(roots).classes)

    def __contains__(self, one: type[Any]) -> bool:
        return one in self._classes

    def find(self, module: str, qualname: str) -> type[Any] | None:
        """The class of that name. What Spark ships by value (``__main__``) loses its qualified name on the way, and a class may have
        moved to another module: then its short name counts. Of several the one that the writer itself is closest to.
        """
        short = qualname.rpartition(".")[2]
        named = [one for one in self._classes if one.__name__ == short]
        here = [one for one in named if one.__module__ == module]
        exact = [one for one in here if one.__qualname__ == qualname]
        return next(iter((*exact, *here, *named)), None)

    def required(self, module: str, qualname: str, base: type[Any] = object) -> type[Any]:
        """``find``, and a LookupError where there is none."""
        found = self.find(module, qualname)
        if found is None or not issubclass(found, base):
            raise LookupError(f"the sink refers to no class {module}.{qualname}")
        return found


class _Search:
    """Walks from the roots along references, the nearest first. Into classes and functions of the user's own modules only: others are
    looked at."""

    def __init__(self, roots: tuple[object, ...]) -> None:
        self.classes: list[type[Any]] = []
        self._seen: set[int] = set()
        self._kept: list[object] = []
        """What ``_seen`` names by id must not be replaced by something else under the same id."""
        parents = [parent for root in roots for parent in type(root).__mro__ if not _is_library(parent)]
        self._own = {parent.__module__ for parent in parents}
        self._follow([*parents, *roots])
        # A slot has no module of what was shipped by value: what only the module knows must not come before what both can find.
        for name in sorted(self._own & sys.modules.keys()):
            self._follow(vars(sys.modules[name]).values())

    def _follow(self, start: Iterable[object]) -> None:
        waiting = deque(start)
        while waiting:
            what = waiting.popleft()
            if id(what) not in self._seen:
                self._seen.add(id(what))
                self._kept.append(what)
                waiting.extend(self._next(what))

    def _next(self, what: object) -> Iterator[object]:
        match what:
            case type():
                yield from self._of_class(what)
            case FunctionType():
                if what.__module__ in self._own:
                    yield from _referred(what)
            case staticmethod() | classmethod() | MethodType():
                yield what.__func__
            case property():
                yield from (what.fget, what.fset)
            case ModuleType():
                pass  # Only what a function names in it.
            case _:
                if type(what).__module__ in self._own:
                    yield type(what)
                    yield from getattr(what, "__dict__", {}).values()

    def _of_class(self, one: type[Any]) -> Iterator[object]:
        if _is_library(one):
            return
        if issubclass(one, WriterCommitMessage):
            self._own.add(one.__module__)  # What it consists of is defined beside it.
        own = one.__module__ in self._own
        if _may_hold_data(one, own=own):
            self.classes.append(one)
        if own:
            yield from vars(one).values()
            yield from one.__bases__
            yield from _declared(one)


def _is_library(one: type[Any]) -> bool:
    return one.__module__.partition(".")[0] in _LIBRARIES


def _may_hold_data(one: type[Any], *, own: bool) -> bool:
    if issubclass(one, _NOT_DATA) or hasattr(one, "__del__"):
        return False
    if issubclass(one, (WriterCommitMessage, enum.Enum)) or is_dataclass(one):
        return True
    return own or (issubclass(one, tuple) and hasattr(one, "_fields"))


def _declared(one: type[Any]) -> Iterator[object]:
    """Classes that annotations of fields name, as they stand: ``list[Part]`` has its arguments."""
    waiting = list(get_annotations(one).values())
    while waiting:
        what = waiting.pop()
        if isinstance(what, type):
            yield what
        arguments = getattr(what, "__args__", ())
        waiting += list(arguments) if isinstance(arguments, tuple) else []


def _referred(function: FunctionType) -> Iterator[object]:
    """What its code can name: globals, what it closes over, and of the modules among them the attributes that it names."""
    names = set(_names(function.__code__))
    reached = [function.__globals__[name] for name in sorted(names) if name in function.__globals__]
    for cell in function.__closure__ or ():
        try:
            reached.append(cell.cell_contents)
        except ValueError:
            continue  # Not bound yet.
    for what in reached:
        yield what
        if isinstance(what, ModuleType):
            yield from (vars(what)[name] for name in sorted(names) if name in vars(what))
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
