"""Batches as confluent-kafka (librdkafka 2.16) produced them and a broker of Kafka 4.3 stored them: read as they are, and made byte for byte."""

from __future__ import annotations

import base64

import numpy as np
import polars as pl
import pytest

from tidegate.connectors.kafka.protocol.codec import SPARE_BYTES
from tidegate.connectors.kafka.protocol.headers import HEADERS
from tidegate.connectors.kafka.protocol.record_batch import HEAD_BYTES, Messages, record_batch
from tidegate.connectors.kafka.protocol.transactions import Handle
from tidegate.connectors.kafka.protocol.unpacking import Received
from tidegate.connectors.kafka.source.consumer import unpacked_rows

CREATED_MS = 1_700_000_000_000
MESSAGES = [
    (b"key", b"value", [("trace", b"\x01\x02"), ("trace", None), ("grün", b"")]),
    (None, b"a text that is long enough to be worth a codec " * 20, None),
    (b"", None, [("h", b"x" * 200)]),
]
BATCHES = {
    "none": (
        "AAAAAAAAAAAAAATgAAAAAALRB9mYAAAAAAACAAABi8/laAAAAAGLz+VoAP//////////////////AAAAA0oAAAAGa2V5CnZhbHVl"
        "Bgp0cmFjZQQBAgp0cmFjZQEKZ3LDvG4A5g4AAAIB2A5hIHRleHQgdGhhdCBpcyBsb25nIGVub3VnaCB0byBiZSB3b3J0aCBhIGNv"
        "ZGVjIGEgdGV4dCB0aGF0IGlzIGxvbmcgZW5vdWdoIHRvIGJlIHdvcnRoIGEgY29kZWMgYSB0ZXh0IHRoYXQgaXMgbG9uZyBlbm91"
        "Z2ggdG8gYmUgd29ydGggYSBjb2RlYyBhIHRleHQgdGhhdCBpcyBsb25nIGVub3VnaCB0byBiZSB3b3J0aCBhIGNvZGVjIGEgdGV4"
        "dCB0aGF0IGlzIGxvbmcgZW5vdWdoIHRvIGJlIHdvcnRoIGEgY29kZWMgYSB0ZXh0IHRoYXQgaXMgbG9uZyBlbm91Z2ggdG8gYmUg"
        "d29ydGggYSBjb2RlYyBhIHRleHQgdGhhdCBpcyBsb25nIGVub3VnaCB0byBiZSB3b3J0aCBhIGNvZGVjIGEgdGV4dCB0aGF0IGlz"
        "IGxvbmcgZW5vdWdoIHRvIGJlIHdvcnRoIGEgY29kZWMgYSB0ZXh0IHRoYXQgaXMgbG9uZyBlbm91Z2ggdG8gYmUgd29ydGggYSBj"
        "b2RlYyBhIHRleHQgdGhhdCBpcyBsb25nIGVub3VnaCB0byBiZSB3b3J0aCBhIGNvZGVjIGEgdGV4dCB0aGF0IGlzIGxvbmcgZW5v"
        "dWdoIHRvIGJlIHdvcnRoIGEgY29kZWMgYSB0ZXh0IHRoYXQgaXMgbG9uZyBlbm91Z2ggdG8gYmUgd29ydGggYSBjb2RlYyBhIHRl"
        "eHQgdGhhdCBpcyBsb25nIGVub3VnaCB0byBiZSB3b3J0aCBhIGNvZGVjIGEgdGV4dCB0aGF0IGlzIGxvbmcgZW5vdWdoIHRvIGJl"
        "IHdvcnRoIGEgY29kZWMgYSB0ZXh0IHRoYXQgaXMgbG9uZyBlbm91Z2ggdG8gYmUgd29ydGggYSBjb2RlYyBhIHRleHQgdGhhdCBp"
        "cyBsb25nIGVub3VnaCB0byBiZSB3b3J0aCBhIGNvZGVjIGEgdGV4dCB0aGF0IGlzIGxvbmcgZW5vdWdoIHRvIGJlIHdvcnRoIGEg"
        "Y29kZWMgYSB0ZXh0IHRoYXQgaXMgbG9uZyBlbm91Z2ggdG8gYmUgd29ydGggYSBjb2RlYyBhIHRleHQgdGhhdCBpcyBsb25nIGVu"
        "b3VnaCB0byBiZSB3b3J0aCBhIGNvZGVjIGEgdGV4dCB0aGF0IGlzIGxvbmcgZW5vdWdoIHRvIGJlIHdvcnRoIGEgY29kZWMgAKQD"
        "AAAEAAECAmiQA3h4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4"
        "eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4"
        "eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4"
    ),
    "gzip": (
        "AAAAAAAAAAAAAAC3AAAAAAJovWOlAAEAAAACAAABi8/laAAAAAGLz+VoAP//////////////////AAAAAx+LCAAAAAAAAAPzYmBg"
        "YMtOreQqS8wpTWXjKilKTE5lYWSCMBi50osO78ljeMbHwMDEeIMvUaEktaJEoSQjsUQhs1ghJz8vXSE1L780PUOhJF8hKVWhPL+o"
        "JEMhUSE5PyU1WWFU+ajyUeUDpJxhCTMDAwsDIxNTxgTmimECAJeCqaSvBAAA"
    ),
    "snappy": (
        "AAAAAAAAAAAAAADTAAAAAAKB4FQPAAIAAAACAAABi8/laAAAAAGLz+VoAP//////////////////AAAAA68JXEoAAAAGa2V5CnZh"
        "bHVlBgp0cmFjZQQBAgkJ8D4BCmdyw7xuAOYOAAACAdgOYSB0ZXh0IHRoYXQgaXMgbG9uZyBlbm91Z2ggdG8gYmUgd29ydGggYSBj"
        "b2RlYyD+LwD+LwD+LwD+LwD+LwD+LwD+LwD+LwD+LwD+LwD+LwD+LwD+LwDyLwA0AKQDAAAEAAECAmiQA3j+AQD+AQD+AQANAQ=="
    ),
    "lz4": (
        "AAAAAAAAAAAAAAC7AAAAAAIORa/JAAMAAAACAAABi8/laAAAAAGLz+VoAP//////////////////AAAAAwQiTRhgQIJ7AAAA8glK"
        "AAAABmtleQp2YWx1ZQYKdHJhY2UEAQIJAP8wAQpncsO8bgDmDgAAAgHYDmEgdGV4dCB0aGF0IGlzIGxvbmcgZW5vdWdoIHRvIGJl"
        "IHdvcnRoIGEgY29kZWMgLwD///9t7wCkAwAABAABAgJokAN4AQCvUHh4eHh4AAAAAA=="
    ),
    "zstd": (
        "AAAAAAAAAAAAAACoAAAAAAKTXmnsAAQAAAACAAABi8/laAAAAAGLz+VoAP//////////////////AAAAAyi1L/0AWHUDAFKGFyCw"
        "Jx14kGohLRU8N7VGMh7bjdl7ZG8o2yQxFXsQRfbeKU1CNISODzsl/JUBXce3fWp4Aq77xhh1eeZ0OUHwxbbfJveYMA6yk4adYvGY"
        "OugcufCtQpJZsKAOOUBsKwEDAEQcpV6vVBXCoYwB"
    ),
}


def rows() -> pl.DataFrame:
    made = [
        (key, value, None if headers is None else [{"key": name, "value": content} for name, content in headers])
        for key, value, headers in MESSAGES
    ]
    return pl.DataFrame(made, schema={"key": pl.Binary, "value": pl.Binary, "headers": HEADERS}, orient="row")


@pytest.mark.parametrize("codec", BATCHES)
def test_a_batch_of_librdkafka_is_read(codec: str) -> None:
    data = np.frombuffer(base64.b64decode(BATCHES[codec]) + bytes(SPARE_BYTES), np.uint8)
    parts = unpacked_rows(Received(data, 0), "t-0")
    found = pl.concat([part.frame(("key", "value", "headers", "offset", "timestamp"), "t", 0) for part in parts])
    assert found.select("key", "value", "headers").rows() == rows().rows()
    assert found["offset"].to_list() == [0, 1, 2]
    assert found["timestamp"].dt.timestamp("ms").to_list() == [CREATED_MS] * 3


def test_the_records_of_a_batch_are_librdkafkas_byte_for_byte() -> None:
    batch = record_batch(Messages.of(rows(), has_key=True, has_headers=True), Handle("", -1, -1), -1, CREATED_MS)
    ours = b"".join(bytes(part) for part in batch.parts)
    theirs = base64.b64decode(BATCHES["none"])
    assert ours[HEAD_BYTES:] == theirs[HEAD_BYTES:]
    length, magic, behind_the_epoch = slice(0, 12), slice(16, 17), slice(21, None)
    for part in (length, magic, behind_the_epoch):
        assert ours[part] == theirs[part], "all but the leader's epoch, which the broker sets, and its checksum"
    assert ours[17:21] == theirs[17:21], "a checksum does not cover the epoch"
