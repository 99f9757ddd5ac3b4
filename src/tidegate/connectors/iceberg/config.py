"""What the Iceberg sink works with."""

from __future__ import annotations

from dataclasses import dataclass


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
