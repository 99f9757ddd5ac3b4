"""A restart anywhere in any file, of any format, yields exactly the rows that had not been emitted."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.nodes import ByNode
from tests.unit.connectors.reading import BOUNDED, drain, file_scan, positions

from tidegate.connectors.files import lines, parquet
from tidegate.model import types as t
from tidegate.model.types import Field

SCHEMA = (Field("n", t.LONG), Field("s", t.STRING))
WORDS = st.text(alphabet='abä \t,;"\\|', max_size=8)
ROWS = st.lists(st.tuples(st.none() | st.integers(-(2**63), 2**63 - 1), st.none() | WORDS), min_size=1, max_size=60)


def write(form: str, path: Path, rows: list[tuple[Any, ...]], group: int) -> None:
    match form:
        case "parquet":
            pl.DataFrame(rows, schema={"n": pl.Int64, "s": pl.String}, orient="row").write_parquet(
                path, row_group_size=group
            )
        case "json":
            path.write_text("\n".join(json.dumps({"n": n, "s": s}) for n, s in rows))
        case "csv":
            path.write_text("n,s\n" + "\n".join(f"{'' if n is None else n},{quoted(s)}" for n, s in rows) + "\n")
        case _:
            path.write_text("\n".join("" if s is None else s for _, s in rows) + "\n")


def quoted(text: str | None) -> str:
    if text is None:
        return ""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@pytest.mark.parametrize("form", ["parquet", "json", "csv", "text"])
@given(rows=ROWS, group=st.integers(1, 20), rows_max=st.integers(1, 25), block=st.integers(1, 200))
def test_every_position_is_a_place_to_go_on_from(
    form: str, rows: list[tuple[Any, ...]], group: int, rows_max: int, block: int
) -> None:
    """T34."""
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", block)
        patch.setattr(parquet, "PIECE_ROWS_MIN", 3)
        patch.setattr(parquet, "PIECE_BYTES", 16)
        write(form, Path(directory, "x"), rows, group)
        schema = (Field("value", t.STRING),) if form == "text" else SCHEMA
        scan = file_scan(form, directory, schema, header=True) if form == "csv" else file_scan(form, directory, schema)
        splits = ByNode().enumerator(scan, BOUNDED).discover(0)
        source = ByNode().source(scan)
        for split in splits:
            everything = drain(source.open(split, None))
            assert everything == expected(form, rows)
            for position, emitted in positions(source, split, rows_max):
                assert drain(source.open(split, position), rows_max) == everything[emitted:]


def expected(form: str, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    match form:
        case "text":
            return [("" if s is None else s,) for _, s in rows]
        case "csv":  # With Spark's defaults an empty string is null, however it is written.
            return [(n, s or None) for n, s in rows]
        case _:
            return rows
