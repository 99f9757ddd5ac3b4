"""Functions of the user's query inside a slot: how they arrive, and what is said when one of them raises.

The core never unpickles anything itself. Whoever deploys the query passes ``load``, which turns the command of a plan node
into a callable; with Spark that is ``tidegate.spark.functions.load``.
"""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import polars as pl

from tidegate.model.errors import Bug, UserCodeFailed

Load: TypeAlias = Callable[[bytes], object]
"""Command of a plan node → a callable, or a LoadedFunction when struct values have a type of their own."""

RowMaker: TypeAlias = Callable[[tuple[str, ...]], Callable[[Iterable[object]], object]]
"""Field names → constructor of a struct value from its fields, in order."""

_OWN_CODE = __file__.rsplit("/", 2)[0] + "/"
_LIBRARIES = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
_ROW_CHARACTERS_MAX = 2_000


class Record(tuple[Any, ...]):
    """A struct value with fields by name: what user functions see when the loader brings no row type of its own."""

    names: tuple[str, ...]

    def __getattr__(self, name: str) -> object:
        try:
            return self[self.names.index(name)]
        except ValueError:
            raise AttributeError(name) from None


def record_maker(names: tuple[str, ...]) -> Callable[[Iterable[object]], object]:
    return type("Record", (Record,), {"names": names})


@dataclass(frozen=True, slots=True)
class LoadedFunction:
    """A user function, ready to be called, and the constructor of the struct values it expects."""

    function: Callable[..., Any]
    make_row: RowMaker = record_maker
    processor: Callable[..., Any] | None = None
    """How a stateful function becomes a ``Processor``: a ``ProcessorFactory``; None where nobody can run one."""


def load_function(load: Load, command: bytes, label: str) -> LoadedFunction:
    """Calls ``load``. A function that cannot be loaded here is the user's to mend: usually a module missing on the executor."""
    try:
        loaded = load(command)
    except Exception as error:
        raise UserCodeFailed(
            f"{type(error).__name__}: {error}\nwhile loading user function {label!r} in the slot",
            hint="install what the function imports on every executor, or ship it with spark.submit.pyFiles",
        ) from error
    if isinstance(loaded, LoadedFunction):
        return loaded
    if not callable(loaded):
        raise Bug(f"the command of user function {label!r} is a {type(loaded).__name__}, not a function")
    return LoadedFunction(loaded)


def failure(error: BaseException, operator: str, row: str) -> UserCodeFailed:
    """What to raise instead: the user's traceback first, then which operator and which row."""
    told = UserCodeFailed(
        f"{user_traceback(error)}\nin {operator}\n{row}",
        hint="mend the function, make it return null for such rows, or have them written elsewhere: option deadLetter",
    )
    # Batches are cut anew after a restart: only the row itself tells whether this is the same error again.
    told.position = row
    return told


def user_traceback(error: BaseException) -> str:
    """The traceback without our frames and those of libraries, and without causes that lie inside libraries alone."""
    report = traceback.TracebackException.from_exception(error)
    part: traceback.TracebackException | None = report
    while part is not None:
        outside = [frame for frame in part.stack if not frame.filename.startswith(_OWN_CODE)]
        part.stack = traceback.StackSummary.from_list(_of_user(part) or outside)
        cause = part.__cause__ or part.__context__
        if cause is not None and not _of_user(cause):
            part.__cause__ = part.__context__ = cause = None
        part = cause
    return "".join(report.format()).rstrip()


def describe_row(rows: pl.DataFrame, index: int, what: str = "row") -> str:
    """One row for people, under the user's column names: ``row: price=3, channel='web'``."""
    if rows.is_empty():
        return f"{what}: none, the batch was empty"
    values = rows.row(min(index, rows.height - 1))
    text = ", ".join(f"{user_name(name)}={value!r}" for name, value in zip(rows.columns, values, strict=True))
    if len(text) > _ROW_CHARACTERS_MAX:
        text = text[:_ROW_CHARACTERS_MAX] + " …"
    return f"{what}: {text}"


def user_name(column: str) -> str:
    """``price#3`` → ``price``."""
    name, mark, number = column.rpartition("#")
    return name if mark and number.isdigit() else column


def _of_user(part: traceback.TracebackException) -> list[traceback.FrameSummary]:
    return [f for f in part.stack if not f.filename.startswith(_OWN_CODE) and not _is_library(f.filename)]


def _is_library(filename: str) -> bool:
    return (
        filename.startswith((*_LIBRARIES, "<frozen ", "<__array_function__"))
        or "site-packages/" in filename
        or filename.endswith((".pyx", ".pxi"))
    )
