"""The history of a location's checkpoints as a table or as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from tidegate.api.durations import show_duration
from tidegate.api.history import checkpoint_history
from tidegate.api.screen import show_bytes
from tidegate.model.errors import InvalidQuery


def show_checkpoints(location: str, last: int, settings: Sequence[str] = (), *, as_json: bool) -> None:
    """``settings``: ``name=value`` of options ``storage.*``. Raises InvalidQuery when there is no checkpoint location."""
    records = checkpoint_history(location, dict(map(_setting, settings)))[-last:]
    if as_json:
        for record in records:
            typer.echo(json.dumps(record, default=str))
        return
    if not records:
        typer.echo(f"{location} has no checkpoints yet")
        return
    Console(soft_wrap=True).print(_table(location, records))


def _setting(text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not mark:
        raise InvalidQuery("--storage needs a name and a value", hint="--storage endpoint=https://minio.example:9000")
    return name, value


def _table(location: str, records: list[dict[str, Any]]) -> Table:
    table = Table(title=f"checkpoints of {location}")
    for column in ("id", "attempt", "kind", "state", "took", "size", "uploaded", "why not"):
        text = column in ("kind", "state", "why not")
        table.add_column(column, justify="left" if text else "right", no_wrap=column != "why not")
    for record in records:
        table.add_row(
            str(record["id"]),
            str(record["attempt"]),
            str(record["kind"]),
            str(record["state"]),
            show_duration(round(record["durationMs"])),
            show_bytes(record["stateBytes"]),
            show_bytes(record["uploadedBytes"]),
            str(record.get("reason") or ""),
        )
    return table
