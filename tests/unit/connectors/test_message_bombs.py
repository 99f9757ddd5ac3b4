"""Messages that somebody has planted to run out of time, of memory, or into the user's own code: each ends in an error that names the document."""

from __future__ import annotations

import pickle
import resource
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage

from tidegate.connectors.python_sink import limits, messages
from tidegate.connectors.python_sink.classes import MessageClasses
from tidegate.model.errors import CorruptSnapshot, DataError

DOCUMENT = "batches/sink-0/waiting/1"
HERE = __name__
CALLED: list[str] = []


@dataclass
class Wrote(WriterCommitMessage):
    what: Any


@dataclass(frozen=True)
class Part:
    """Python hashes it by its fields."""

    path: Any


class Acting:
    """Everything that Python asks of an object by itself."""

    def __init__(self, what: Any) -> None:
        self.what = what

    def __hash__(self) -> int:
        CALLED.append("hash")
        return 1

    def __eq__(self, other: object) -> bool:
        CALLED.append("eq")
        return True

    def __iter__(self) -> Any:
        CALLED.append("iter")
        return iter(())

    def __len__(self) -> int:
        CALLED.append("len")
        return 0

    def __fspath__(self) -> str:
        CALLED.append("fspath")
        return "x"

    def __str__(self) -> str:
        CALLED.append("str")
        return "x"

    __repr__ = __str__

    def __index__(self) -> int:
        CALLED.append("index")
        return 1 << 40

    def __getattr__(self, name: str) -> Any:
        CALLED.append(f"getattr {name}")
        raise AttributeError(name)

    def __mul__(self, other: object) -> Any:
        CALLED.append("mul")
        return self

    __ge__ = __le__ = __gt__ = __lt__ = __rmul__ = __add__ = __eq__


class Writer(DataSourceStreamWriter):
    def write(self, iterator: Any) -> WriterCommitMessage:
        return Wrote([Part("a"), Acting(1)])


CLASSES = MessageClasses(Writer())
ACTING = ["object", HERE, "Acting", None, {"what": 1}]


def read(data: bytes) -> Any:
    return messages.decode(data, CLASSES, DOCUMENT, "recorder")


def packed(what: Any) -> bytes:
    return b"TGCM\x01" + msgspec.msgpack.encode(["object", HERE, "Wrote", None, {"what": what}])


def nested(levels: int) -> Any:
    value: Any = ["list"]
    for _ in range(levels):
        value = ["list", value]
    return value


def laughing(levels: int, wrap: Callable[[bytes], bytes]) -> bytes:
    """Each level holds the one below twice."""
    steps = b"".join(wrap(b"h" + bytes((level,))) + b"q" + bytes((level + 1,)) for level in range(levels))
    return b"\x80\x04]q\x00" + steps + b"."


def doubled(inner: bytes) -> bytes:
    return inner + inner + b"\x86"


LAUGHS = b")q\x00" + b"".join(bytes((0x68, n, 0x68, n, 0x86, 0x71, n + 1)) for n in range(200))
"""A tuple of two, whose halves are the one before: hashed, compared or printed, it would take for ever."""

BOMBS: dict[str, bytes] = {
    "a memo of 32 GB": b"\x80\x04Nr\xff\xff\xff\x7f.",
    "a memo of a negative number": b"\x80\x04Np-7\n.",
    "bytes of an exabyte": b"\x80\x05\x8e" + struct.pack("<Q", 1 << 60) + b"x.",
    "a bytearray of an exabyte": b"\x80\x05\x96" + struct.pack("<Q", 1 << 60) + b"x.",
    "a bytearray of a number": b"\x80\x04cbuiltins\nbytearray\n\x8a\x06\x00\x00\x00\x00\x00\x01\x85R.",
    "lists that double": laughing(200, lambda inner: b"]" + inner + b"a" + inner + b"a"),
    "tuples that double": laughing(200, doubled),
    "a key that doubles": b"\x80\x04" + LAUGHS + b"}h\xc8Ns.",
    "an element that doubles": b"\x80\x04\x8f(" + LAUGHS + b"\x90.",
    "a frozen element that doubles": b"\x80\x04(" + LAUGHS + b"\x91.",
    "a persistent id that doubles": b"\x80\x04" + LAUGHS + b"Q.",
    "a name that doubles": b"\x80\x04" + LAUGHS + LAUGHS.replace(b")q\x00", b"h\x00", 1) + b"\x93.",
    "a list in itself": b"\x80\x04]q\x00h\x00a.",
    "tuples nested for ever": b"\x80\x04)" + b"\x85" * 500_000 + b".",
    "lists nested for ever": b"\x80\x04" + b"]" * 500_000 + b"a" * 499_999 + b".",
    "marks for ever": b"\x80\x04" + b"(" * 1_000_000 + b".",
    "steps for ever": b"\x80\x04" + b"N0" * 1_500_000 + b"N.",
    "an extension of copyreg": b"\x80\x04\x82\x01.",
    "a buffer from outside": b"\x80\x05\x97.",
    "a message of 17 MiB": packed(b"x" * (17 << 20)),
    "arrays nested for ever": b"TGCM\x01" + b"\x91" * 1_000_000,
    "a message nested in lists": packed(nested(300)),
    "a bytearray of a terabyte": packed(["bytearray", 1 << 40]),
    "a bytearray of numbers": packed(["bytearray", ["list", 1, 2, 3]]),
    "more values than anybody returns": packed(["list", *([None] * (limits.VALUES_MAX + 1))]),
    "numbers of one hash": packed(["set", *(["int", hex(k * (2**61 - 1))] for k in range(1, 50_000))]),
    "dictionary of one hash": packed(
        ["dict", *(x for k in range(1, 50_000) for x in (["int", hex(k * (2**61 - 1))], 0))]
    ),
}


def attempt(data: bytes) -> str:
    with pytest.raises(CorruptSnapshot, match=DOCUMENT) as refused:
        read(data)
    assert len(str(refused.value)) < 2_000
    return refused.value.message


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_ends_in_an_error_that_names_the_document_within_bounds(tmp_path: Path, name: str) -> None:
    """T63, T83: in a process that may use 60 seconds and a gigabyte and a half more than it starts with."""
    bomb = tmp_path / "bomb"
    bomb.write_bytes(BOMBS[name])
    done = subprocess.run(
        [sys.executable, __file__, str(bomb)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, (done.returncode, done.stdout[-500:], done.stderr[-2000:])
    assert DOCUMENT in done.stdout and "CORRUPT_SNAPSHOT" in done.stdout


ACTS: dict[str, Any] = {
    "element": ["set", ACTING, ACTING],
    "frozen element": ["frozenset", ACTING],
    "element of an element": ["set", ["tuple", ACTING]],
    "field of an element": ["set", ["object", HERE, "Part", None, {"path": ACTING}]],
    "key": ["dict", ACTING, 1, ACTING, 2],
    "key in order": ["ordered", ACTING, 1],
    "path": ["path", "PosixPath", ACTING],
    "kind of path": ["path", ACTING, "x"],
    "bytearray": ["bytearray", ACTING],
    "uuid": ["uuid", ACTING],
    "zone": ["zone", ACTING],
    "decimal": ["decimal", ACTING],
    "duration": ["timedelta", ACTING],
    "moment": ["datetime", "2026-01-01T00:00:00", ACTING, None],
    "moment in a zone": ["datetime", "2026-01-01T00:00:00", 0, ACTING],
    "row": ["row", None, ACTING],
    "names of a row": ["row", ACTING, ["list", 1]],
    "name in a row": ["row", ["list", ACTING], ["list", 1]],
    "items": ["object", HERE, "Part", ACTING, {}],
    "number": ["int", ACTING],
}


@pytest.mark.parametrize("name", ACTS)
def test_no_method_of_the_users_class_runs_on_what_somebody_has_planted(name: str) -> None:
    """T83"""
    CALLED.clear()
    attempt(packed(ACTS[name]))
    assert CALLED == []


def acting(where: Callable[[Any], Any]) -> bytes:
    return pickle.dumps(Wrote(where(Hollow())), 4).replace(b"Hollow", b"Acting")


class Hollow:
    """Takes the place of ``Acting`` while it is pickled."""

    def __init__(self) -> None:
        self.what = 1

    def __hash__(self) -> int:
        return 1


class Calls:
    def __init__(self, maker: Any, *args: Any) -> None:
        self.made = (maker, args)

    def __reduce__(self) -> Any:
        return self.made


@pytest.mark.parametrize(
    "where",
    [
        lambda one: {one},
        lambda one: frozenset({(one,)}),
        lambda one: {one: 1},
        lambda one: {Part(one): 1},
        lambda one: Calls(Path, one),
        lambda one: Calls(__import__("decimal").Decimal, one),
        lambda one: Calls(__import__("datetime").datetime, one),
        lambda one: Calls(__import__("uuid").UUID, one),
        lambda one: Calls(bytearray, one),
    ],
)
def test_nor_on_what_was_pickled(where: Callable[[Any], Any]) -> None:
    CALLED.clear()
    attempt(acting(where))
    assert CALLED == []


@pytest.mark.parametrize("value", [{Part("a"): 1}, {Part("a"), Part("b")}, {(1, Part(None))}])
def test_what_python_compares_by_its_fields_may_be_a_key(value: Any) -> None:
    assert read(messages.encode(Wrote(value), CLASSES, "recorder")).what == value
    assert read(pickle.dumps(Wrote(value))).what == value


def test_a_key_that_compares_itself_is_refused_when_it_is_written() -> None:
    with pytest.raises(DataError, match="Acting in a set, or as a key, would have its __hash__ called"):
        messages.encode(Wrote({Acting(1): 1}), CLASSES, "recorder")


def test_what_is_too_large_is_refused_when_it_is_written() -> None:
    with pytest.raises(DataError, match="16777216 are allowed"):
        messages.encode(Wrote(bytes(17 << 20)), CLASSES, "recorder")


def main(path: str) -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (3 << 29), used + (3 << 29)))
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
    try:
        read(Path(path).read_bytes())
    except CorruptSnapshot as refused:
        print(refused)


if __name__ == "__main__":
    main(sys.argv[1])
