"""Options of the Iceberg sink. What belongs to the catalogue goes to ``pyiceberg`` as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tidegate.connectors.iceberg.committer import IcebergCommitter
from tidegate.connectors.iceberg.config import IcebergConfig
from tidegate.connectors.iceberg.sink import iceberg_writer
from tidegate.connectors.lake.schemas import refuse_unwritable
from tidegate.connectors.lake.writer import TableWriter
from tidegate.model.errors import InvalidQuery
from tidegate.model.output_mode import OutputMode
from tidegate.ports.context import CommitterContext, WriterContext
from tidegate.ports.kinds import Flag, Text, WholeNumber
from tidegate.ports.options import anything, option, refused
from tidegate.ports.spec import ConnectorRequest, Place, SinkSpec, place_of_path


@dataclass(frozen=True, kw_only=True)
class IcebergSpec(SinkSpec):
    table: str = option(
        "path",
        Text("`namespace.table`", harmless=True),
        doc="name of the table",
        needed='toTable("namespace.table") names the table',
    )
    merge_schema: bool = option(
        "mergeSchema",
        Flag(),
        False,
        doc="whether columns that the table lacks are added to it",
        aliases=("merge-schema",),
    )
    rows_max: int = option("maxRecordsPerFile", WholeNumber(), 0, doc="most rows of a data file; 0: no limit")
    catalog: dict[str, str] = anything(
        "catalog.", doc="properties of the catalogue: `catalog.type`, `catalog.uri`, `catalog.s3.endpoint`"
    )
    snapshot_properties: dict[str, str] = anything("snapshot-property.", doc="for every snapshot, beside our own")
    table_properties: dict[str, str] = anything("table-property.", doc="properties of a table that is made")

    REFUSED: ClassVar = {
        **refused("write-format", "branch", hint="leave it out: Parquet files are written, to the main branch"),
        **refused("overwrite-mode", "isolation-level", "validate-from-snapshot-id", hint="leave it out"),
    }
    IGNORED: ClassVar = frozenset(
        {
            "fanout-enabled",
            "distribution-mode",
            "check-nullability",
            "check-ordering",
            "target-file-size-bytes",
            "compression-codec",
            "compression-level",
            "compression-strategy",
            "delete-granularity",
        }
    )

    def __post_init__(self) -> None:
        if "." not in self.table or "/" in self.table:
            raise InvalidQuery(
                f"{self.table!r} is no name of an Iceberg table",
                hint='it has a namespace and a name: toTable("sales.orders")',
            )
        if self.catalog.get("type", "").lower() == "in-memory":
            raise InvalidQuery(
                "an in-memory catalogue exists in one process only: the slots could not see its tables",
                hint="use a rest, sql, hive, glue or dynamodb catalogue",
            )

    @classmethod
    def said(cls, asked: ConnectorRequest) -> dict[str, Any]:
        values = super().said(asked)
        refuse_unwritable(asked)
        return values

    @property
    def place(self) -> Place:
        return place_of_path(self.table)

    @property
    def config(self) -> IcebergConfig:
        return IcebergConfig(
            catalog=self.catalog.get("name", "default"),
            catalog_properties={name: value for name, value in self.catalog.items() if name != "name"},
            table=self.table,
            partition_by=self.partition_by,
            whole=self.mode is OutputMode.COMPLETE,
            merge_schema=self.merge_schema,
            rows_max=self.rows_max,
            snapshot_properties=self.snapshot_properties,
            table_properties=self.table_properties,
        )

    def writer(self, context: WriterContext) -> TableWriter:
        return iceberg_writer(self.config, self.schema, context)

    def committer(self, context: CommitterContext) -> IcebergCommitter:
        """Makes the table if there is none."""
        return IcebergCommitter(self.config, self.schema, context)


SINK = IcebergSpec
