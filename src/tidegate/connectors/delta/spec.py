"""Options of the Delta sink: Spark's names where Delta's own sink has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tidegate.connectors.delta.committer import DeltaCommitter
from tidegate.connectors.delta.config import DeltaConfig, table_uri, with_patience
from tidegate.connectors.delta.sink import delta_writer
from tidegate.connectors.lake.schemas import refuse_unwritable
from tidegate.connectors.lake.writer import TableWriter
from tidegate.model.output_mode import OutputMode
from tidegate.ports.context import CommitterContext, WriterContext
from tidegate.ports.kinds import Choice, Flag, Text, WholeNumber
from tidegate.ports.options import anything, option, refused
from tidegate.ports.spec import ConnectorRequest, Place, SinkSpec, place_of_path


@dataclass(frozen=True, kw_only=True)
class DeltaSpec(SinkSpec):
    path: str = option(
        "path",
        Text("a path or URL", harmless=True),
        doc="directory of the table",
        needed='start(path) names the table\'s directory, toTable("delta.`/path`") as well',
    )
    merge_schema: bool = option(
        "mergeSchema", Flag(), False, doc="whether columns that the table lacks are added to it"
    )
    codec: str = option(
        "compression",
        Choice("snappy", "none", "gzip", "zstd", "lz4_raw", uncompressed="none"),
        "snappy",
        doc="of the data files",
    )
    rows_max: int = option("maxRecordsPerFile", WholeNumber(), 0, doc="most rows of a data file; 0: no limit")
    storage_options: dict[str, str] = anything("storageOptions.", doc="handed to the `deltalake` library as they are")
    properties: dict[str, str] = anything("delta.", doc="properties of a table that is made")

    REFUSED: ClassVar = {
        **refused(
            "txnAppId",
            "txnVersion",
            hint="exactly once is the sink's own doing: leave it out, the commits carry both already",
        ),
        **refused("overwriteSchema", "replaceWhere", "partitionOverwriteMode", "dataChange", hint="leave it out"),
    }
    IGNORED: ClassVar = frozenset({"userMetadata", "optimizeWrite"})

    @classmethod
    def said(cls, asked: ConnectorRequest) -> dict[str, Any]:
        values = super().said(asked)
        refuse_unwritable(asked)
        return values

    @property
    def place(self) -> Place:
        return place_of_path(self.path)

    @property
    def config(self) -> DeltaConfig:
        return DeltaConfig(
            uri=table_uri(self.path),
            storage_options=with_patience(self.storage_options),
            partition_by=self.partition_by,
            whole=self.mode is OutputMode.COMPLETE,
            merge_schema=self.merge_schema,
            codec=self.codec,
            rows_max=self.rows_max,
            properties={f"delta.{name}": value for name, value in self.properties.items()},
        )

    def writer(self, context: WriterContext) -> TableWriter:
        return delta_writer(self.config, self.schema, context)

    def committer(self, context: CommitterContext) -> DeltaCommitter:
        """Makes the table if there is none."""
        return DeltaCommitter(self.config, self.schema, context)


SINK = DeltaSpec
