"""One message with headers: the library takes them only message by message."""

from __future__ import annotations

import ctypes
from ctypes import Structure, c_char, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from typing import Any

from tidegate.connectors.kafka import librdkafka as rd
from tidegate.connectors.kafka.librdkafka import LibraryError, library


class _Memory(Structure):
    _fields_ = (("at", c_void_p), ("size", c_size_t))


class _Argument(Structure):
    """``rd_kafka_vu_t``: one argument of ``rd_kafka_produceva``; the union is as large as its padding."""

    class _Union(ctypes.Union):
        _fields_ = (
            ("pointer", c_void_p),
            ("text", c_char_p),
            ("int", c_int),
            ("int32", c_int32),
            ("int64", c_int64),
            ("memory", _Memory),
            ("padding", c_char * 64),
        )

    _anonymous_ = ("u",)
    _fields_ = (("kind", c_int), ("u", _Union))


_RKT, _PARTITION, _VALUE, _KEY, _FLAGS, _HEADERS = 2, 3, 4, 5, 7, 10


def produce_one(
    producer: int,
    topic: int,
    partition: int,
    value: bytes | None,
    key: bytes | None,
    headers: list[dict[str, Any]] | None,
) -> LibraryError | None:
    """Returns why the library did not take it."""
    lib = library()
    arguments = (_Argument * 6)()
    arguments[0].kind, arguments[0].pointer = _RKT, topic
    arguments[1].kind, arguments[1].int32 = _PARTITION, partition
    arguments[2].kind, arguments[2].int = _FLAGS, rd.COPY
    for place, kind, data in ((3, _VALUE, value), (4, _KEY, key)):
        arguments[place].kind = kind
        if data is not None:
            arguments[place].memory = _Memory(ctypes.cast(ctypes.c_char_p(data), c_void_p), len(data))
    made = lib.rd_kafka_headers_new(len(headers or ()))
    for header in headers or ():
        name, content = header["key"].encode(), header["value"]
        lib.rd_kafka_header_add(made, name, len(name), content, -1 if content is None else len(content))
    arguments[5].kind, arguments[5].pointer = _HEADERS, made
    try:
        rd.raise_for(lib.rd_kafka_produceva(producer, arguments, 6))
    except LibraryError as error:
        lib.rd_kafka_headers_destroy(made)  # The library owns them only if it took the message.
        return error
    return None
