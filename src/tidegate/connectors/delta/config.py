"""What the Delta sink works with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

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


def table_uri(path: str) -> str:
    """``/data/t``, ``file:/data/t`` and ``file:///data/t`` are the same absolute path; other URLs stay as they are."""
    scheme, mark, _ = path.partition(":")
    if not mark or "/" in scheme or len(scheme) < 2:
        return str(Path(path).absolute())
    return unquote(urlsplit(path).path) if scheme.lower() == "file" else path.rstrip("/")


def with_patience(given: dict[str, str]) -> dict[str, str]:
    names = {name.lower() for name in given}
    endpoint = next((value for name, value in given.items() if name.lower().endswith("endpoint_url")), "")
    plain = {"AWS_ALLOW_HTTP": "true"} if endpoint.startswith("http://") and "aws_allow_http" not in names else {}
    return {**{name: value for name, value in _PATIENCE.items() if name not in names}, **plain, **given}
