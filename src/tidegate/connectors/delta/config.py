"""Options of the Delta sink: Spark's names where Delta's own sink has them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tidegate.connectors.lake.schemas import refuse_unwritable
from tidegate.connectors.legacy import Sink
from tidegate.connectors.options import Options
from tidegate.model.output_mode import OutputMode

STORAGE = "storageOptions."
"""Options under this prefix go to the ``deltalake`` library as they are: ``storageOptions.AWS_ENDPOINT_URL``."""

_CODECS = ("snappy", "none", "uncompressed", "gzip", "zstd", "lz4_raw")
_PATIENCE = {"connect_timeout": "5s", "timeout": "30s", "max_retries": "5", "retry_timeout": "30s"}
"""The library's own is minutes, in which a query that cannot reach its store would say nothing."""


@dataclass(frozen=True, slots=True)
class DeltaConfig:
    """The validated options of a Delta sink."""

    uri: str
    """An absolute local path, or a URL with a scheme the library knows."""
    storage_options: dict[str, str]
    partition_by: tuple[str, ...]
    whole: bool
    """Output mode ``complete``: every commit replaces all rows."""
    merge_schema: bool
    codec: str
    rows_max: int
    """``maxRecordsPerFile``; 0: no limit."""
    properties: dict[str, str]
    """Table properties, for a table that is made."""

    @property
    def local(self) -> bool:
        return "://" not in self.uri

    @property
    def extension(self) -> str:
        return "parquet" if self.codec == "none" else f"{self.codec.replace('_', '')}.parquet"


def parse_sink(sink: Sink, *, warn: bool = False) -> DeltaConfig:
    """InvalidQuery for whatever can be seen to be wrong without looking at the table."""
    options = Options(sink.options, "delta sink")
    path = options.required("path", 'start(path) names the table\'s directory, toTable("delta.`/path`") as well')
    refuse_unwritable(sink)
    options.refuse(
        "txnAppId",
        "txnVersion",
        hint="exactly once is the sink's own doing: leave it out, the commits carry both already",
    )
    options.refuse("overwriteSchema", "replaceWhere", "partitionOverwriteMode", hint="leave it out")
    options.ignore("checkpointLocation", "queryName")
    config = DeltaConfig(
        uri=table_uri(path),
        storage_options=_storage_options(options.prefixed(STORAGE)),
        partition_by=sink.partition_by,
        whole=sink.mode is OutputMode.COMPLETE,
        merge_schema=options.flag("mergeSchema"),
        codec=options.choice("compression", "snappy", _CODECS).replace("uncompressed", "none"),
        rows_max=options.integer("maxRecordsPerFile", 0),
        properties={f"delta.{name}": value for name, value in options.prefixed("delta.").items()},
    )
    if warn:
        options.warn_unknown()
    return config


def table_uri(path: str) -> str:
    """``/data/t``, ``file:/data/t`` and ``file:///data/t`` are the same absolute path; other URLs stay as they are."""
    scheme, mark, _ = path.partition(":")
    if not mark or "/" in scheme or len(scheme) < 2:
        return str(Path(path).absolute())
    return unquote(urlsplit(path).path) if scheme.lower() == "file" else path.rstrip("/")


def _storage_options(given: dict[str, str]) -> dict[str, str]:
    names = {name.lower() for name in given}
    endpoint = next((value for name, value in given.items() if name.lower().endswith("endpoint_url")), "")
    plain = {"AWS_ALLOW_HTTP": "true"} if endpoint.startswith("http://") and "aws_allow_http" not in names else {}
    return {**{name: value for name, value in _PATIENCE.items() if name not in names}, **plain, **given}
