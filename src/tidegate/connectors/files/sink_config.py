"""Options of the file sinks, with Spark's names, defaults and meaning. What would change results and is not built is refused."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.connectors.files.config import output_location, parse_zone
from tidegate.connectors.files.encoders import refuse_unwritable
from tidegate.connectors.files.text_options import TEXT_CODECS, TextOptions, parse_text_options
from tidegate.connectors.legacy import Sink
from tidegate.connectors.options import Options, refuse_unknown_partitions
from tidegate.connectors.quantities import duration_ms, size_bytes
from tidegate.model.errors import InvalidQuery
from tidegate.model.output_mode import OutputMode
from tidegate.model.types import Schema

FILE_BYTES_MAX = 256 * 1024 * 1024
SMALL_BYTES = 256 * 1024
"""Joining costs the driver about 17 ms of CPU per megabyte of Parquet, 1.5 ms per megabyte of lines: four milliseconds per slot."""

_PARQUET_CODECS = ("snappy", "none", "uncompressed", "gzip", "zstd", "lz4_raw")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSinkConfig:
    """The validated options of a file sink."""

    location: str
    """An absolute path, or the URL of a directory in a store."""
    format: str
    extension: str
    codec: str
    rows_max: int
    """``maxRecordsPerFile``; 0: no limit."""
    bytes_max: int
    """``rollingSize``: a file is ended when about this much has gone into it; 0: no limit."""
    age_max_ms: int | None
    """``rollingInterval``: a file is ended when it has been open for so long, and at every checkpoint in any case."""
    small_bytes: int
    """``mergeSmallFiles``: files below this are published together with others of their checkpoint; 0: none."""
    spark_log: str
    """``sparkMetadataLog``: ``auto``, ``true`` or ``false``."""
    retention_ms: int | None
    zone: str
    partition_by: tuple[str, ...]
    stored: Schema
    """Columns inside the files: all but the partition columns."""
    text: TextOptions | None
    """None: Parquet."""


def parse_sink(sink: Sink, *, warn: bool = False) -> FileSinkConfig:
    """``warn``: also report options that nobody knows (once, on the driver)."""
    form = sink.format.lower()
    options = Options(sink.options, f"{form} sink")
    location = output_location(options.required("path", "start(path) names the output directory"))
    if sink.mode is not OutputMode.APPEND:
        raise InvalidQuery(
            f"the {form} sink cannot take back rows: output mode {sink.mode.value} is refused",
            hint="use append, or a sink that understands updates (memory, console, foreach)",
        )
    stored = _stored(sink)
    refuse_unwritable(form, stored)
    options.ignore("checkpointLocation", "queryName")
    zone = parse_zone(options)
    if form == "parquet":
        text = None
        codec = options.choice("compression", "snappy", _PARQUET_CODECS).replace("uncompressed", "none")
        extension = "parquet" if codec == "none" else f"{codec.replace('_', '')}.parquet"
    else:
        text = parse_text_options(form, options, zone)
        codec = text.compression
        extension = ("txt" if form == "text" else form) + TEXT_CODECS[codec]
    config = FileSinkConfig(
        location=location,
        format=form,
        extension=extension,
        codec=codec,
        rows_max=options.integer("maxRecordsPerFile", 0),
        bytes_max=size_bytes(options, "rollingSize", FILE_BYTES_MAX),
        age_max_ms=duration_ms(options, "rollingInterval"),
        small_bytes=size_bytes(options, "mergeSmallFiles", SMALL_BYTES),
        spark_log=options.choice("sparkMetadataLog", "auto", ("auto", "true", "false")),
        retention_ms=duration_ms(options, "retention"),
        zone=zone,
        partition_by=sink.partition_by,
        stored=stored,
        text=text,
    )
    if warn:
        options.warn_unknown()
    return config


def _stored(sink: Sink) -> Schema:
    refuse_unknown_partitions(sink)
    stored = tuple(field for field in sink.schema if field.name not in sink.partition_by)
    if not stored:
        raise InvalidQuery(
            "partitionBy names all columns: nothing is left to write", hint="keep at least one out of it"
        )
    return stored
