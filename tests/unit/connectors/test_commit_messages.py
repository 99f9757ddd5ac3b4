"""What a user's sink may tell its own ``commit``, and what bytes that somebody planted may not."""

from __future__ import annotations

import datetime as dt
import enum
import os
import pickle
import threading
import uuid
import zoneinfo
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import numpy as np
import pytest
from pyspark.serializers import CPickleSerializer
from pyspark.sql import Row
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage

from tidegate.connectors.python_sink import messages
from tidegate.connectors.python_sink.classes import MessageClasses
from tidegate.model.errors import CorruptSnapshot, DataError

Span = namedtuple("Span", "first last")


class Kind(enum.Enum):
    NEW = 1
    OLD = ("tuple", 2)


class Level(enum.IntEnum):
    LOW = 1


@dataclass(frozen=True, slots=True)
class Part:
    path: str
    rows: int = 0


class Footer:
    """No dataclass: plain attributes."""

    def __init__(self, offset: int) -> None:
        self.offset = offset

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Footer) and other.offset == self.offset

    __hash__ = None  # type: ignore[assignment]


@dataclass
class Wrote(WriterCommitMessage):
    what: Any


@dataclass(frozen=True, slots=True)
class Slotted(WriterCommitMessage):
    path: str
    parts: tuple[Part, ...]


class Plain(WriterCommitMessage):
    """Its constructor must not run when it is read."""

    made = 0

    def __init__(self, number: int) -> None:
        type(self).made += 1
        self.number = number
        self.doubled = number * 2


class Named(WriterCommitMessage, Span):
    pass


class Writer(DataSourceStreamWriter):
    class Nested(WriterCommitMessage):
        def __init__(self, n: int) -> None:
            self.n = n

    def write(self, iterator: Any) -> WriterCommitMessage:
        return Wrote(list(iterator))


class Source(DataSource):
    def streamWriter(self, schema: Any, overwrite: bool) -> Writer:
        return Writer()


CLASSES = MessageClasses(Writer(), Source({}))
ZONED = dt.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=zoneinfo.ZoneInfo("Europe/Paris"))
VALUES: list[Any] = [
    None,
    True,
    -1,
    2**63,
    -(10**40),
    0.1,
    float("inf"),
    "tide",
    b"\x00\xff",
    bytearray(b"gate"),
    [1, [2, []]],
    (1, (2,), ()),
    {"a": {1: None, (2, 3): "b"}},
    {1, 2},
    frozenset({"a"}),
    OrderedDict(b=1, a=2),
    dt.date(2026, 1, 31),
    dt.datetime(2026, 1, 31, 1, 2, 3, 4),
    dt.datetime(2026, 1, 31, tzinfo=dt.UTC),
    dt.datetime(2026, 1, 31, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30), "IST")),
    ZONED,
    dt.time(1, 2, 3),
    dt.timedelta(-1, 2, 3),
    Decimal("1.50"),
    Decimal("-Infinity"),
    uuid.UUID(int=7),
    Path("/data/a"),
    PurePosixPath("b/c"),
    Row(name="a", n=1),
    Row(*(1, "b")),  # pyright: ignore[reportArgumentType]  without names
    Kind.NEW,
    Kind.OLD,
    Level.LOW,
    Span(1, (2,)),
    Part("a", 3),
    [Part("a", 3), {"k": Span(Part("b"), None)}],
    Footer(8),
]
"""What sinks return."""


def stored(message: WriterCommitMessage) -> bytes:
    return messages.encode(message, CLASSES, "recorder")


def pickled(message: Any) -> bytes:
    """As the versions before did it."""
    return CPickleSerializer().dumps(message)


def read(data: bytes, classes: MessageClasses = CLASSES) -> Any:
    return messages.decode(data, classes, "batches/sink-0/waiting/1", "recorder")


@pytest.mark.parametrize("write", [stored, pickled])
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_message_comes_back_as_it_was(write: Callable[[Any], bytes], value: Any) -> None:
    back = read(write(Wrote(value)))
    assert type(back) is Wrote and back == Wrote(value)
    assert (type(back.what) is type(value) and repr(back.what) == repr(value)) or isinstance(value, Footer)


def test_the_fold_of_a_repeated_hour_comes_back() -> None:
    assert read(stored(Wrote(ZONED))).what.fold == read(pickled(Wrote(ZONED))).what.fold == 1


@pytest.mark.parametrize("write", [stored, pickled])
def test_numbers_of_numpy_come_back_as_pythons_own(write: Callable[[Any], bytes]) -> None:
    back = read(write(Wrote([np.int64(5), np.float32(0.5), np.bool_(True), np.uint8(200)])))
    assert back.what == [5, 0.5, True, 200] and [type(one) for one in back.what] == [int, float, bool, int]


def test_a_dictionary_with_a_default_is_read_where_it_was_pickled() -> None:
    back = read(pickled(Wrote(defaultdict(list, {1: [2]}))))
    assert back.what == {1: [2]} and back.what[3] == []


@pytest.mark.parametrize("write", [stored, pickled])
@pytest.mark.parametrize(
    "message", [Slotted("a", (Part("b", 1), Part("c"))), Named(1, 2), WriterCommitMessage(), Writer.Nested(4)]
)
def test_messages_of_every_shape_come_back(write: Callable[[Any], bytes], message: Any) -> None:
    back = read(write(message))
    assert type(back) is type(message)
    assert back == message or vars(back) == vars(message)


@pytest.mark.parametrize("write", [stored, pickled])
def test_reading_a_message_does_not_call_its_constructor(write: Callable[[Any], bytes]) -> None:
    """T63."""
    data = write(Plain(3))
    before = Plain.made
    back = read(data)
    assert (back.number, back.doubled, Plain.made) == (3, 6, before)


def local_sink() -> tuple[DataSourceStreamWriter, Callable[[Any], WriterCommitMessage]]:
    """As a notebook defines it: inside a function, and shipped by value."""

    @dataclass
    class Detail:
        rows: int

    @dataclass
    class Local(WriterCommitMessage):
        detail: Any

    class LocalWriter(DataSourceStreamWriter):
        def write(self, iterator: Any) -> Local:
            return Local(Detail(len(list(iterator))))

    return LocalWriter(), lambda rows: Local(Detail(rows))


@pytest.mark.parametrize("legacy", [False, True])
def test_a_class_that_was_shipped_by_value_is_found_in_the_sink_of_the_driver(legacy: bool) -> None:
    writer, make = local_sink()
    data = pickled(make(3)) if legacy else messages.encode(make(3), MessageClasses(writer), "recorder")
    again, make_again = local_sink()
    back = read(data, MessageClasses(again))
    assert back == make_again(3), "of the classes of the new program, not of those that wrote it"


def test_a_class_that_a_slot_knows_by_its_short_name_is_found() -> None:
    """What cloudpickle ships by value has lost its qualified name in the slot."""
    assert CLASSES.find(__name__, "Nested") is Writer.Nested
    assert CLASSES.find("an.older.module", "Wrote") is Wrote
    assert CLASSES.find("os", "system") is None


class Watching(WriterCommitMessage):
    """Would act when it is made or forgotten."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __del__(self) -> None:
        Path(self.path).touch()


class Waking(WriterCommitMessage):
    def __init__(self, path: str) -> None:
        self.path = path

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Path(state["path"]).touch()


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (threading.Lock(), "the message.what is a _thread.lock"),
        ({"a": [object()]}, r"the message.what\['a'\]\[0\] is a builtins.object"),
        (print, "the message.what is a builtins.builtin_function_or_method"),
        (defaultdict(list), "defaultdict"),
        (ValueError("no"), "ValueError"),
        ("\ud800", "surrogates not allowed"),
    ],
)
def test_what_cannot_be_stored_is_refused_when_it_is_written(value: Any, named: str) -> None:
    """T83."""
    with pytest.raises(DataError, match=named) as refused:
        stored(Wrote(value))
    assert "put numbers, text or bytes into it" in refused.value.hint


def test_a_message_that_holds_itself_is_refused_when_it_is_written() -> None:
    message = Wrote([])
    message.what.append(message)
    with pytest.raises(DataError, match="RecursionError"):
        stored(message)


def test_a_class_that_no_other_process_would_find_is_refused_when_it_is_written() -> None:
    @dataclass
    class OfOneCall(WriterCommitMessage):
        n: int

    with pytest.raises(DataError, match="OfOneCall") as refused:
        stored(OfOneCall(1))
    assert "defined beside the writer" in refused.value.hint


@pytest.mark.parametrize("kind", [Watching, Waking])
def test_a_class_that_is_more_than_its_fields_is_refused(tmp_path: Path, kind: type[Any]) -> None:
    """T83: neither its ``__setstate__`` nor its ``__del__`` sees fields that somebody else has chosen."""
    touched = tmp_path / "touched"
    message = kind(str(touched))
    with pytest.raises(DataError, match=kind.__name__):
        stored(message)
    data = pickled(message)
    message.path = str(tmp_path / "on purpose")
    planted = (
        messages._MAGIC
        + b"\x01"
        + msgspec.msgpack.encode(["object", __name__, kind.__name__, None, {"path": str(touched)}])
    )
    for one in (data, planted) if kind is Watching else (data,):
        with pytest.raises(CorruptSnapshot, match=kind.__name__):
            read(one)
    assert not touched.exists()


class Bomb:
    """Unpickled by anybody, it makes a file."""

    def __init__(self, how: Callable[[Path], tuple[Any, ...]], path: Path) -> None:
        self.how, self.path = how, path

    def __reduce__(self) -> tuple[Any, ...]:
        return self.how(self.path)


def touch(path: Path) -> None:
    path.touch()


BOMBS: list[Callable[[Path], tuple[Any, ...]]] = [
    lambda path: (os.mknod, (str(path),)),
    lambda path: (os.system, (f"touch {path}",)),
    lambda path: (exec, (f"open({str(path)!r}, 'w')",)),
    lambda path: (touch, (path,)),
    lambda path: (Plain, (1,), {"number": Bomb(BOMBS[0], path)}),
    lambda path: (getattr, (Bomb(BOMBS[0], path), "x")),
    lambda path: (Wrote, (Bomb(BOMBS[1], path),)),
    lambda path: (map, (touch, [path])),
]


@pytest.mark.parametrize("how", BOMBS)
@pytest.mark.parametrize("wrap", [lambda bomb: bomb, Wrote, lambda bomb: Slotted("a", (bomb,))])
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_pickle_bomb_in_place_of_a_message_does_not_go_off(
    tmp_path: Path, how: Any, wrap: Callable[[Any], Any], protocol: int
) -> None:
    """T63, T83."""
    path = tmp_path / "touched"
    data = pickle.dumps(wrap(Bomb(how, path)), protocol)
    with pytest.raises(CorruptSnapshot, match="batches/sink-0/waiting/1") as refused:
        read(data)
    assert not path.exists() and "nothing else that the message names is loaded" in refused.value.hint


def test_the_bombs_would_go_off(tmp_path: Path) -> None:
    for number, how in enumerate(BOMBS[:4]):
        path = tmp_path / str(number)
        pickle.loads(pickle.dumps(Bomb(how, path)))
        assert path.exists(), number


def test_code_that_was_pickled_by_value_is_not_run(tmp_path: Path) -> None:
    """T63: the pickle of a class of ``__main__`` holds its functions, and an unpickler that trusts it makes them."""
    path = tmp_path / "touched"
    kind: Any = type(
        "Wrote",
        (WriterCommitMessage,),
        {"__module__": "__main__", "__setstate__": lambda self, state: path.touch(), "what": None},
    )
    message = kind()
    message.what = 1
    back = read(pickled(message))
    assert type(back) is Wrote and back.what == 1 and not path.exists()


@pytest.mark.parametrize(
    "planted",
    [
        ["object", "os", "system", None, {}],
        ["object", "subprocess", "Popen", None, {"args": "touch"}],
        ["object", "tests.unit.connectors.test_commit_messages", "Writer", None, {}],
        ["object", "tests.unit.connectors.test_commit_messages", "Source", None, {}],
        ["enum", "tests.unit.connectors.test_commit_messages", "Wrote", "what"],
        ["zone", "../../etc/passwd"],
        ["path", "os", "x"],
        ["unknown"],
        [],
        {"a": 1},
        "no message",
        ["tuple", 1],
    ],
    ids=repr,
)
def test_bytes_that_name_something_else_are_refused(planted: Any) -> None:
    """T83."""
    with pytest.raises(CorruptSnapshot, match="cannot be read, in batches/sink-0/waiting/1"):
        read(messages._MAGIC + b"\x01" + msgspec.msgpack.encode(planted))


@pytest.mark.parametrize(
    "data", [b"", b"TGCM", b"TGCM\x02\xc0", b"TGCM\x01", b"TGCM\x01\xc1", b"\x80", b"\x80\x05.", b"junk"]
)
def test_damaged_bytes_are_refused_by_name(data: bytes) -> None:
    with pytest.raises(CorruptSnapshot, match="cannot be read, in batches/sink-0/waiting/1"):
        read(data)
