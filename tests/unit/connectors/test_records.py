from __future__ import annotations

import bz2
import datetime
import gzip
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.unit.connectors.reading import file_scan, read_all, written

from tidegate.connectors.files import lines
from tidegate.model import types as t
from tidegate.model.errors import DataError, InvalidQuery
from tidegate.model.types import Field

TEXT = (Field("value", t.STRING),)
UTC = datetime.UTC


def json_rows(tmp_path: Path, data: str, *schema: Field, **options: Any) -> list[tuple[Any, ...]]:
    written(tmp_path / "x.json", data)
    return read_all(file_scan("json", tmp_path, schema, **options))


def test_every_line_of_a_text_file_is_a_row_blank_ones_too(tmp_path: Path) -> None:
    written(tmp_path / "x", b"\xef\xbb\xbfa\n\nb\r\nc\xff")
    assert read_all(file_scan("text", tmp_path, TEXT)) == [("a",), ("",), ("b",), ("c\ufffd",)]


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".bz2", bz2.compress)])
def test_compressed_files_are_read_by_their_name(tmp_path: Path, suffix: str, compress: Any) -> None:
    written(tmp_path / f"x.txt{suffix}", compress(b"a\nb\n"))
    assert read_all(file_scan("text", tmp_path, TEXT), rows_max=1) == [("a",), ("b",)]


def test_lines_longer_than_a_block_stay_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", 7)
    content = ["x" * n for n in (0, 3, 50, 6, 7, 8, 1)]
    written(tmp_path / "x", "\n".join(content))
    assert read_all(file_scan("text", tmp_path, TEXT), rows_max=2) == [(line,) for line in content]


def test_json_values_become_the_types_of_the_schema(tmp_path: Path) -> None:
    line = '{"i":1,"d":1.005,"ts":"2024-05-01T12:00:00.5+02:00","day":"2024-05-01","s":{"l":[1,2],"at":"2024-05-01"},"b":"aGk="}'
    struct = t.Struct((Field("l", t.Array(t.SHORT)), Field("at", t.TIMESTAMP_NTZ)))
    schema = (
        Field("i", t.INTEGER), Field("d", t.Decimal(10, 2)), Field("ts", t.TIMESTAMP), Field("day", t.DATE),
        Field("s", struct), Field("b", t.BINARY), Field("absent", t.DOUBLE),
    )  # fmt: skip
    assert json_rows(tmp_path, line, *schema) == [
        (
            1, Decimal("1.01"), datetime.datetime(2024, 5, 1, 10, 0, 0, 500000, tzinfo=UTC), datetime.date(2024, 5, 1),
            {"l": [1, 2], "at": datetime.datetime(2024, 5, 1)}, b"hi", None,
        )
    ]  # fmt: skip


def test_timestamps_without_zone_are_in_the_sessions(tmp_path: Path) -> None:
    rows = json_rows(tmp_path, '{"ts":"2024-05-01 12:00:00"}', Field("ts", t.TIMESTAMP), timeZone="Europe/Berlin")
    assert rows == [(datetime.datetime(2024, 5, 1, 10, tzinfo=UTC),)]


def test_permissive_json_is_null_where_it_cannot_be_understood(tmp_path: Path) -> None:
    data = '{"a":1}\nnot json\n\n{"a":"x"}\n{"a":300}\n{"a":2'
    assert json_rows(tmp_path, data, Field("a", t.BYTE)) == [(1,), (None,), (None,), (None,), (None,)]


def test_many_malformed_lines_do_not_hide_the_good_ones(tmp_path: Path) -> None:
    data = "\n".join(f'{{"a":{n}}}' if n % 7 else "broken {" for n in range(200))
    assert json_rows(tmp_path, data, Field("a", t.LONG)) == [(n if n % 7 else None,) for n in range(200)]


def test_numbers_that_json_cannot_write_are_read_from_the_words_spark_uses(tmp_path: Path) -> None:
    data = '{"f":"NaN"}\n{"f":"-Infinity"}\n{"f":"1.5"}\n{"f":1.5}\nbroken\n{"f":"INF"}'
    (nan,), *others = json_rows(tmp_path, data, Field("f", t.DOUBLE))
    assert nan != nan
    assert others == [(float("-inf"),), (None,), (1.5,), (None,), (float("inf"),)]


def test_failfast_json_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"x\.json"):
        json_rows(tmp_path, '{"a":1}\nbroken', Field("a", t.LONG), mode="failfast")


def test_a_map_in_json_is_refused_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(InvalidQuery, match="map<string,int>") as raised:
        json_rows(tmp_path, "{}", Field("m", t.Map(t.STRING, t.INTEGER)))
    assert "from_json" in raised.value.hint


CSV = (Field("a", t.INTEGER), Field("s", t.STRING), Field("t", t.STRING))


def csv_rows(tmp_path: Path, data: str, **options: Any) -> list[tuple[Any, ...]]:
    written(tmp_path / "x.csv", data)
    return read_all(file_scan("csv", tmp_path, CSV, **options))


SPARK_SAYS = [
    # line, default options, escape='"'; what Spark 4.3 returns for it (columns s and t)
    ('"",x', (None, "x"), (None, "x")),
    (",y", (None, "y"), (None, "y")),
    ('"a""b",u', ('"a""b"', "u"), ('a"b', "u")),
    ('"a\\nb\\\\c",u', ("a\\nb\\c", "u"), ("a\\nb\\\\c", "u")),
    ('"abc,u', ("abc,u", None), ("abc,u", None)),
    ('a"b"c,u', ('a"b"c', "u"), ('a"b"c', "u")),
    ('"x"y,u', ('"x"y', "u"), ('"x"y', "u")),
    ('"a\\"b",u', ('a"b', "u"), ('"a\\"b"', "u")),
    ('a\\"b,u', ('a\\"b', "u"), ('a\\"b', "u")),
    (' "a,b" ,u', (' "a', 'b" '), (' "a', 'b" ')),
    ('"a,b",u', ("a,b", "u"), ("a,b", "u")),
]


@pytest.mark.parametrize(("line", "default", "doubled"), SPARK_SAYS)
def test_quotes_and_escapes_mean_what_they_mean_to_spark(
    tmp_path: Path, line: str, default: tuple[Any, ...], doubled: tuple[Any, ...]
) -> None:
    assert csv_rows(tmp_path, "1," + line) == [(1, *default)]
    assert csv_rows(tmp_path, "1," + line, escape='"') == [(1, *doubled)]


def test_a_header_and_blank_lines_are_skipped_in_every_file(tmp_path: Path) -> None:
    written(tmp_path / "y.csv", "a,s,t\n2,y,z\n")
    assert sorted(csv_rows(tmp_path, "\na,s,t\n\n1,x,z\n  \n", header=True)) == [(1, "x", "z"), (2, "y", "z")]


def test_short_lines_are_filled_with_nulls_and_long_ones_cut(tmp_path: Path) -> None:
    assert csv_rows(tmp_path, "1\n2,x,y,z\nbad,x,y") == [(1, None, None), (2, "x", "y"), (None, "x", "y")]


def test_a_null_value_of_its_own_keeps_empty_strings(tmp_path: Path) -> None:
    assert csv_rows(tmp_path, '1,"",x\n2,,y\n3,-,"-"', nullValue="-") == [(1, "", "x"), (2, None, "y"), (3, None, None)]


def test_another_separator_and_no_quotes(tmp_path: Path) -> None:
    assert csv_rows(tmp_path, '1\t"x\ty', sep="\\t", quote="") == [(1, '"x', "y")]


def test_failfast_csv_names_value_column_and_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'bad'.*x\.csv.*column 'a'"):
        csv_rows(tmp_path, "1,x,y\nbad,x,y", mode="FAILFAST")


def test_columns_go_by_position_also_when_pruned(tmp_path: Path) -> None:
    written(tmp_path / "x.csv", "1,x,y\n2,u,v")
    assert read_all(file_scan("csv", tmp_path, CSV, columns=("t",))) == [("y",), ("v",)]
    assert len(read_all(file_scan("csv", tmp_path, CSV, columns=()))) == 2


@pytest.mark.parametrize("option", ["dateFormat", "comment", "multiLine", "columnNameOfCorruptRecord"])
def test_csv_options_that_are_not_built_are_refused(tmp_path: Path, option: str) -> None:
    with pytest.raises(InvalidQuery, match=option):
        csv_rows(tmp_path, "1,x,y", **{option: "x"})


def test_dropping_malformed_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidQuery, match="DROPMALFORMED"):
        csv_rows(tmp_path, "1,x,y", mode="DROPMALFORMED")
