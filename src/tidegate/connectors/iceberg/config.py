"""Options of the Iceberg sink. What belongs to the catalogue goes to ``pyiceberg`` as it is."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.connectors.lake.schemas import refuse_unwritable
from tidegate.connectors.legacy import Sink
from tidegate.connectors.options import Options
from tidegate.model.errors import InvalidQuery
from tidegate.model.output_mode import OutputMode

CATALOG = "catalog."
"""Options under this prefix are properties of the catalogue: ``catalog.type``, ``catalog.uri``, ``catalog.s3.endpoint``."""
SNAPSHOT = "snapshot-property."
TABLE = "table-property."


@dataclass(frozen=True, slots=True)
class IcebergConfig:
    """The validated options of an Iceberg sink."""

    catalog: str
    """Its name, under which ``pyiceberg`` also looks for settings in its own file and in the environment."""
    catalog_properties: dict[str, str]
    table: str
    """``namespace.table``."""
    partition_by: tuple[str, ...]
    whole: bool
    """Output mode ``complete``: every commit replaces all rows."""
    merge_schema: bool
    rows_max: int
    """``maxRecordsPerFile``; 0: no limit."""
    snapshot_properties: dict[str, str]
    """For every snapshot, beside our own."""
    table_properties: dict[str, str]
    """For a table that is made."""


def parse_sink(sink: Sink, *, warn: bool = False) -> IcebergConfig:
    """InvalidQuery for whatever can be seen to be wrong without asking the catalogue."""
    options = Options(sink.options, "iceberg sink")
    table = options.required("path", 'toTable("namespace.table") names the table')
    if "." not in table or "/" in table:
        raise InvalidQuery(
            f"{table!r} is no name of an Iceberg table", hint='it has a namespace and a name: toTable("sales.orders")'
        )
    refuse_unwritable(sink)
    options.refuse("write-format", "branch", hint="leave it out: Parquet files are written, to the main branch")
    options.refuse("overwrite-mode", "isolation-level", "validate-from-snapshot-id", hint="leave it out")
    options.ignore("checkpointLocation", "queryName", "fanout-enabled", "distribution-mode", "check-nullability")
    properties = options.prefixed(CATALOG)
    name = properties.pop("name", "default")
    if properties.get("type", "").lower() == "in-memory":
        raise InvalidQuery(
            "an in-memory catalogue exists in one process only: the slots could not see its tables",
            hint="use a rest, sql, hive, glue or dynamodb catalogue",
        )
    config = IcebergConfig(
        catalog=name,
        catalog_properties=properties,
        table=table,
        partition_by=sink.partition_by,
        whole=sink.mode is OutputMode.COMPLETE,
        merge_schema=options.flag("mergeSchema", options.flag("merge-schema")),
        rows_max=options.integer("maxRecordsPerFile", 0),
        snapshot_properties=options.prefixed(SNAPSHOT),
        table_properties=options.prefixed(TABLE),
    )
    if warn:
        options.warn_unknown()
    return config
