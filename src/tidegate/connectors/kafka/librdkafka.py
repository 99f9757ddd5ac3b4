"""The calls of librdkafka's C interface that Python's binding does not offer: a whole column of messages goes over at once.

The library is the one that ``confluent_kafka`` loaded. Only functions of its public, stable interface are used.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_ssize_t,
    c_void_p,
)
from functools import cache
from typing import Any

import numpy as np
from confluent_kafka import cimpl  # pyright: ignore[reportAttributeAccessIssue]

MESSAGES = np.dtype(
    {
        "names": ["error", "topic", "partition", "payload", "length", "key", "key_length", "offset", "private"],
        "formats": ["i4", "u8", "i4", "u8", "u8", "u8", "u8", "i8", "u8"],
        "offsets": [0, 8, 16, 24, 32, 40, 48, 56, 64],
        "itemsize": 72,
    }
)
"""``rd_kafka_message_t``: an array of it is what ``rd_kafka_produce_batch`` takes."""

ANY_PARTITION = -1
COPY, OWN_PARTITION = 0x2, 0x8
"""Flags: librdkafka copies what it is given; each message names its own partition."""
PRODUCER, CONSUMER = 0, 1
WITHOUT_LEAVING = 0x8
"""Flag: a consumer that is destroyed has no group to leave, and does not wait for one."""
PURGE_ALL = 0x1 | 0x2

# Errors of the library itself are negative, those of brokers are the protocol's.
TIMED_OUT = -185
QUEUE_FULL = -184
UNKNOWN_PARTITION = -190
AUTHENTICATION = -169
STATE = -172
ALL_BROKERS_DOWN = -187
UNKNOWN_TOPIC = -188
FATAL = -150
MESSAGE_TOO_LARGE = 10
UNKNOWN_TOPIC_OR_PARTITION = 3

ERROR_TEXT_BYTES = 512


class Message(Structure):
    """``rd_kafka_message_t``, one of them, as callbacks see it."""

    _fields_ = (
        ("error", c_int),
        ("topic", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("length", c_size_t),
        ("key", c_void_p),
        ("key_length", c_size_t),
        ("offset", c_int64),
        ("private", c_void_p),
    )


ON_DELIVERY = CFUNCTYPE(None, c_void_p, POINTER(Message), c_void_p)
ON_ERROR = CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_void_p)
ON_COMMIT = CFUNCTYPE(None, c_void_p, c_int, c_void_p, c_void_p)
ON_LOG = CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_char_p)


class LibraryError(Exception):
    """librdkafka could not do it."""

    def __init__(self, code: int, text: str, *, retriable: bool = False, fatal: bool = False) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.retriable = retriable
        self.fatal = fatal


_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "rd_kafka_conf_new": (c_void_p, ()),
    "rd_kafka_conf_destroy": (None, (c_void_p,)),
    "rd_kafka_conf_set": (c_int, (c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)),
    "rd_kafka_conf_set_dr_msg_cb": (None, (c_void_p, ON_DELIVERY)),
    "rd_kafka_conf_set_error_cb": (None, (c_void_p, ON_ERROR)),
    "rd_kafka_conf_set_log_cb": (None, (c_void_p, ON_LOG)),
    "rd_kafka_new": (c_void_p, (c_int, c_void_p, c_char_p, c_size_t)),
    "rd_kafka_set_log_queue": (c_int, (c_void_p, c_void_p)),
    "rd_kafka_destroy": (None, (c_void_p,)),
    "rd_kafka_purge": (c_int, (c_void_p, c_int)),
    "rd_kafka_poll": (c_int, (c_void_p, c_int)),
    "rd_kafka_flush": (c_int, (c_void_p, c_int)),
    "rd_kafka_outq_len": (c_int, (c_void_p,)),
    "rd_kafka_err2str": (c_char_p, (c_int,)),
    "rd_kafka_fatal_error": (c_int, (c_void_p, c_char_p, c_size_t)),
    "rd_kafka_topic_new": (c_void_p, (c_void_p, c_char_p, c_void_p)),
    "rd_kafka_topic_name": (c_char_p, (c_void_p,)),
    "rd_kafka_topic_destroy": (None, (c_void_p,)),
    "rd_kafka_metadata": (c_int, (c_void_p, c_int, c_void_p, c_void_p, c_int)),
    "rd_kafka_metadata_destroy": (None, (c_void_p,)),
    "rd_kafka_produce_batch": (c_int, (c_void_p, c_int32, c_int, c_void_p, c_int)),
    "rd_kafka_produceva": (c_void_p, (c_void_p, c_void_p, c_size_t)),
    "rd_kafka_headers_new": (c_void_p, (c_size_t,)),
    "rd_kafka_headers_destroy": (None, (c_void_p,)),
    "rd_kafka_header_add": (c_int, (c_void_p, c_char_p, c_int64, c_char_p, c_int64)),
    "rd_kafka_init_transactions": (c_void_p, (c_void_p, c_int)),
    "rd_kafka_begin_transaction": (c_void_p, (c_void_p,)),
    "rd_kafka_error_code": (c_int, (c_void_p,)),
    "rd_kafka_error_string": (c_char_p, (c_void_p,)),
    "rd_kafka_error_is_fatal": (c_int, (c_void_p,)),
    "rd_kafka_error_is_retriable": (c_int, (c_void_p,)),
    "rd_kafka_error_destroy": (None, (c_void_p,)),
    "rd_kafka_conf_set_offset_commit_cb": (None, (c_void_p, ON_COMMIT)),
    "rd_kafka_poll_set_consumer": (c_int, (c_void_p,)),
    "rd_kafka_queue_get_consumer": (c_void_p, (c_void_p,)),
    "rd_kafka_queue_destroy": (None, (c_void_p,)),
    "rd_kafka_consume_batch_queue": (c_ssize_t, (c_void_p, c_int, c_void_p, c_size_t)),
    "rd_kafka_destroy_flags": (None, (c_void_p, c_int)),
    "rd_kafka_topic_partition_list_new": (c_void_p, (c_int,)),
    "rd_kafka_topic_partition_list_add": (c_void_p, (c_void_p, c_char_p, c_int32)),
    "rd_kafka_topic_partition_list_set_offset": (c_int, (c_void_p, c_char_p, c_int32, c_int64)),
    "rd_kafka_topic_partition_list_destroy": (None, (c_void_p,)),
    "rd_kafka_incremental_assign": (c_void_p, (c_void_p, c_void_p)),
    "rd_kafka_incremental_unassign": (c_void_p, (c_void_p, c_void_p)),
    "rd_kafka_commit": (c_int, (c_void_p, c_void_p, c_int)),
    "rd_kafka_message_headers": (c_int, (c_void_p, c_void_p)),
    "rd_kafka_header_get_all": (c_int, (c_void_p, c_size_t, c_void_p, c_void_p, c_void_p)),
}
_QUICK_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "rd_kafka_msg_partitioner_murmur2": (c_int32, (c_void_p, c_void_p, c_size_t, c_int32, c_void_p, c_void_p)),
    "rd_kafka_message_destroy": (None, (c_void_p,)),
    "rd_kafka_message_timestamp": (c_int64, (c_void_p, c_void_p)),
}
"""Called once per message, and done in an instant."""


@cache
def library() -> ctypes.CDLL:
    """Calls let other threads of Python run meanwhile."""
    loaded = ctypes.CDLL(cimpl.__file__)  # a library's names are found through whoever links it
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


@cache
def quick_library() -> ctypes.PyDLL:
    """Calls do not let other threads of Python run: these are over before it would pay."""
    loaded = ctypes.PyDLL(cimpl.__file__)
    for name, (result, arguments) in _QUICK_SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


def raise_for(error: int | None) -> None:
    """Turns an ``rd_kafka_error_t`` into an exception, and frees it."""
    if not error:
        return
    lib = library()
    failure = LibraryError(
        lib.rd_kafka_error_code(error),
        _text(lib.rd_kafka_error_string(error)),
        retriable=bool(lib.rd_kafka_error_is_retriable(error)),
        fatal=bool(lib.rd_kafka_error_is_fatal(error)),
    )
    lib.rd_kafka_error_destroy(error)
    raise failure


def partition_by_murmur2(address: int, length: int, partitions: int) -> int:
    """Java's choice for the key that lies there."""
    return quick_library().rd_kafka_msg_partitioner_murmur2(None, address, length, partitions, None, None)


def ask_about(client: int, topic: int, wait_ms: int) -> bool:
    """Whether brokers have said by then what they know about the topic (0: about all that this client knows): its leaders are known."""
    answer = c_void_p()
    if library().rd_kafka_metadata(client, 0, topic, ctypes.byref(answer), wait_ms):
        return False
    library().rd_kafka_metadata_destroy(answer)
    return True


def text_of(code: int) -> str:
    return _text(library().rd_kafka_err2str(code))


def fatal_error(handle: int) -> LibraryError | None:
    """What broke a client for good, if something did."""
    buffer = ctypes.create_string_buffer(ERROR_TEXT_BYTES)
    code = library().rd_kafka_fatal_error(handle, buffer, ERROR_TEXT_BYTES)
    return LibraryError(code, _text(buffer.value), fatal=True) if code else None


def new_producer(
    options: dict[str, str],
    on_delivery: Callable[..., object],
    on_error: Callable[..., object],
    on_log: Callable[..., object],
) -> int:
    """The callbacks run inside ``rd_kafka_poll`` and ``rd_kafka_flush``, in the caller's thread; the caller keeps them alive.

    Raises LibraryError for an option that librdkafka does not know, or a value it does not accept.
    """
    lib = library()
    buffer = ctypes.create_string_buffer(ERROR_TEXT_BYTES)
    configuration = lib.rd_kafka_conf_new()
    for name, value in ({"log.queue": "true"} | options).items():
        if code := lib.rd_kafka_conf_set(configuration, name.encode(), value.encode(), buffer, ERROR_TEXT_BYTES):
            lib.rd_kafka_conf_destroy(configuration)
            raise LibraryError(code, _text(buffer.value))
    lib.rd_kafka_conf_set_dr_msg_cb(configuration, on_delivery)
    lib.rd_kafka_conf_set_error_cb(configuration, on_error)
    lib.rd_kafka_conf_set_log_cb(configuration, on_log)
    handle = lib.rd_kafka_new(PRODUCER, configuration, buffer, ERROR_TEXT_BYTES)
    if not handle:
        lib.rd_kafka_conf_destroy(configuration)
        raise LibraryError(-1, _text(buffer.value))
    lib.rd_kafka_set_log_queue(handle, None)
    return handle


def _text(data: bytes | None) -> str:
    return (data or b"").decode(errors="replace")
