"""Every function over nasty values: our Polars expression and Spark's own answer, row by row, errors included.

The guards of an expression say which rows are in error. Spark must agree on both sides: over the other rows it gives
equal values, and on the rows in error it raises the same error class.
"""

from __future__ import annotations

import math
import string
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from pyspark.errors import PySparkException
from tests.differential.harness import quickly
from tests.integration.expression_rows import FRAME, PLAN_SCHEMA, POOLS, SPARK_SCHEMA, TABLE

from tidegate.model import types as t
from tidegate.model.types import DataType, Field
from tidegate.operators.columns import conform, from_arrow, polars_schema, to_arrow
from tidegate.operators.expressions import compile_expression, supported
from tidegate.plan.expressions import Call, Case, Cast, Column, Expression, FieldOf, Literal, MakeStruct

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

BATCH = 50
"""Cases per query."""
ZONES = ("UTC", "America/New_York")
UNTYPED = t.NULL
"""Result type of a case, filled in from Spark's."""


def c(name: str) -> Column:
    return Column(name, POOLS[name][0])


def v(value: Any, kind: DataType | None = None) -> Literal:
    guessed = {bool: t.BOOLEAN, int: t.INTEGER, str: t.STRING, float: t.DOUBLE}
    return Literal(value, kind if kind is not None else guessed[type(value)])


def call(name: str, *args: Expression, type: DataType = UNTYPED, ansi: bool = True) -> Call:
    return Call(name, args, type, ansi)


def cast(child: Expression, type: DataType, ansi: bool = True) -> Cast:
    return Cast(child, type, ansi)


def long(child: Expression) -> Cast:
    return cast(child, t.LONG)


CASES: list[tuple[str, Expression]] = []


def case(sql: str, expression: Expression) -> None:
    CASES.append((sql, expression))


# -- arithmetic ---------------------------------------------------------------------------------------------------------
for _a, _b in (
    ("b", "b2"),
    ("s", "s2"),
    ("i", "i2"),
    ("l", "l2"),
    ("d", "d2"),
    ("m", "m2"),
    ("x", "x"),
    ("m", "x"),
    ("whole", "m"),
):
    for _sql, _name in (("+", "add"), ("-", "subtract"), ("*", "multiply"), ("%", "remainder")):
        case(f"{_a} {_sql} {_b}", call(_name, c(_a), c(_b)))
    case(f"pmod({_a}, {_b})", call("pmod", c(_a), c(_b)))
for _a in ("b", "s", "i", "l"):
    _kind = POOLS[_a][0]
    case(f"{_a} + cast(1 as {t.simple_string(_kind)})", call("add", c(_a), v(1, _kind)))
    case(f"cast(-2 as {t.simple_string(_kind)}) + {_a}", call("add", v(-2, _kind), c(_a)))
    case(f"{_a} - cast(3 as {t.simple_string(_kind)})", call("subtract", c(_a), v(3, _kind)))
    case(f"cast(3 as {t.simple_string(_kind)}) - {_a}", call("subtract", v(3, _kind), c(_a)))
    for _k in (0, 1, -1, 3, -3):
        case(f"{_a} * cast({_k} as {t.simple_string(_kind)})", call("multiply", c(_a), v(_k, _kind)))
    case(f"{_a} % cast(7 as {t.simple_string(_kind)})", call("remainder", c(_a), v(7, _kind)))
    case(f"{_a} % cast(-7 as {t.simple_string(_kind)})", call("remainder", c(_a), v(-7, _kind)))
    case(f"pmod({_a}, cast(7 as {t.simple_string(_kind)}))", call("pmod", c(_a), v(7, _kind)))
for _a, _b in (("d", "d2"), ("m", "m2"), ("x", "m"), ("whole", "m"), ("x", "x")):
    case(f"{_a} / {_b}", call("divide", c(_a), c(_b)))
    case(f"try_divide({_a}, {_b})", call("try_divide", c(_a), c(_b), ansi=False))
for _divisor in ("3.0", "0.1", "0.0"):
    case(f"d / {_divisor}D", call("divide", c("d"), v(float(_divisor))))
for _a, _b in (("l", "l2"), ("l", "k"), ("m", "m2")):
    case(f"{_a} div {_b}", call("div", c(_a), c(_b) if _b != "k" else long(c(_b))))
for _a in ("b", "s", "i", "l", "d", "f", "m", "x"):
    case(f"-{_a}", call("negative", c(_a)))
    case(f"abs({_a})", call("abs", c(_a)))
    case(f"+{_a}", call("positive", c(_a)))
for _name in ("add", "subtract", "multiply"):
    case(f"try_{_name}(i, i2)", call(f"try_{_name}", c("i"), c("i2"), ansi=False))
    case(f"try_{_name}(l, l2)", call(_name, c("l"), c("l2"), ansi=False))
case("try_mod(i, i2)", call("try_mod", c("i"), c("i2"), ansi=False))
case("f % cast(2.5 as float)", call("remainder", c("f"), v(2.5, t.FLOAT)))
for _sql, _name in (("&", "bitwiseand"), ("|", "bitwiseor"), ("^", "bitwisexor")):
    for _a, _b in (("b", "b2"), ("i", "i2"), ("l", "l2")):
        case(f"{_a} {_sql} {_b}", call(_name, c(_a), c(_b)))
case("~l", call("bitwisenot", c("l")))
for _a in ("i", "l"):
    case(f"shiftleft({_a}, k)", call("shiftleft", c(_a), c("k")))
    case(f"shiftright({_a}, k)", call("shiftright", c(_a), c("k")))

# -- comparison and logic -----------------------------------------------------------------------------------------------
for _a, _b in (
    ("i", "i2"),
    ("d", "d2"),
    ("text", "part"),
    ("day", "day2"),
    ("ts", "ts2"),
    ("flag", "flag2"),
    ("m", "m"),
):
    for _sql, _name in (("=", "equalto"), ("<=>", "equalnullsafe"), ("<", "lessthan"), ("<=", "lessthanorequal"),
                        (">", "greaterthan"), (">=", "greaterthanorequal")):  # fmt: skip
        case(f"{_a} {_sql} {_b}", call(_name, c(_a), c(_b), type=t.BOOLEAN))
case("raw = cast('abc' as binary)", call("=", c("raw"), v(b"abc", t.BINARY)))
case("xs = array(1)", call("=", c("xs"), call("array", v(1), type=t.Array(t.INTEGER))))
case("flag and flag2", call("and", c("flag"), c("flag2")))
case("flag or flag2", call("or", c("flag"), c("flag2")))
case("not flag", call("not", c("flag")))
case("i2 <> 0 and i div i2 > 0", call("and", call("not", call("=", c("i2"), v(0), type=t.BOOLEAN), type=t.BOOLEAN),
     call(">", call("div", c("i"), c("i2"), type=t.LONG), v(0, t.LONG), type=t.BOOLEAN)))  # fmt: skip
case("i2 = 0 or i % i2 > 0", call("or", call("=", c("i2"), v(0), type=t.BOOLEAN),
     call(">", call("remainder", c("i"), c("i2"), type=t.INTEGER), v(0), type=t.BOOLEAN)))  # fmt: skip
case("k in (1, 2, 3)", call("in", c("k"), v(1), v(2), v(3)))
case("k in (1, 2, null)", call("in", c("k"), v(1), v(2), v(None, t.INTEGER)))
case("k in (1, 2, 3, 4, 5, -1, null)", call("in", c("k"), *(v(n, t.INTEGER) for n in (1, 2, 3, 4, 5, -1, None))))
case(
    "text in ('a', 'abc', 'ß', '', 'ab', 'zz')",
    call("in", c("text"), *(v(w) for w in ("a", "abc", "ß", "", "ab", "zz"))),
)
case("d in (cast('NaN' as double), 1.0D, 0.0D)", call("in", c("d"), v(math.nan), v(1.0), v(0.0)))
case("i is null", call("isnull", c("i")))
case("text is not null", call("isnotnull", c("text")))
case("isnan(d)", call("isnan", c("d")))

# -- conditional --------------------------------------------------------------------------------------------------------
_nonzero = call("not", call("=", c("i2"), v(0), type=t.BOOLEAN), type=t.BOOLEAN)
_mod = call("remainder", c("i"), c("i2"), type=t.INTEGER)
case("case when i2 <> 0 then i % i2 end", Case(((_nonzero, _mod),), None, t.INTEGER))
case("case when i2 <> 0 then i % i2 when flag then k else b end",
     Case(((_nonzero, _mod), (c("flag"), c("k"))), cast(c("b"), t.INTEGER), t.INTEGER))  # fmt: skip
case(
    "case when k > 0 then i % i2 else 0 end", Case(((call(">", c("k"), v(0), type=t.BOOLEAN), _mod),), v(0), t.INTEGER)
)
case("if(flag, text, part)", call("if", c("flag"), c("text"), c("part")))
case("coalesce(i, k, 7)", call("coalesce", c("i"), c("k"), v(7)))
case("coalesce(k, i % i2)", call("coalesce", c("k"), _mod))
case("nvl(text, 'none')", call("nvl", c("text"), v("none")))
case("nvl2(text, k, i)", call("nvl2", c("text"), c("k"), c("i")))
case("nullif(k, 2)", call("nullif", c("k"), v(2)))
case("nanvl(d, d2)", call("nanvl", c("d"), c("d2")))
case("greatest(d, d2, 1.0D)", call("greatest", c("d"), c("d2"), v(1.0)))
case("least(d, d2, 1.0D)", call("least", c("d"), c("d2"), v(1.0)))
for _a, _b in (("i", "k"), ("text", "part"), ("day", "day2"), ("ts", "ts2"), ("flag", "flag2"), ("m", "m")):
    case(f"greatest({_a}, {_b})", call("greatest", c(_a), c(_b)))
    case(f"least({_a}, {_b})", call("least", c(_a), c(_b)))
case("k + (i % i2)", call("add", c("k"), _mod))  # null + error is null: the right side is never evaluated
case("(i % i2) / cast(k as double)", call("/", cast(_mod, t.DOUBLE), cast(c("k"), t.DOUBLE)))

_id = Column("id", t.INTEGER)
_repeated = call("repeat", v("x"), _id, type=t.STRING)

# -- strings ------------------------------------------------------------------------------------------------------------
for _name in (
    "upper",
    "lower",
    "trim",
    "ltrim",
    "rtrim",
    "length",
    "octet_length",
    "bit_length",
    "reverse",
    "initcap",
    "ascii",
    "hex",
):
    case(f"{_name}(text)", call(_name, c("text")))
case("char_length(text)", call("char_length", c("text")))
case("trim(both 'ad' from text)", call("trim", c("text"), v("ad")))
case("trim(leading 'a' from text)", call("ltrim", c("text"), v("a")))
case("trim(trailing 'cx' from text)", call("rtrim", c("text"), v("cx")))
for _start in (-30, -3, -1, 0, 1, 2, 30):
    for _count in (-1, 0, 2, 100):
        case(f"substring(text, {_start}, {_count})", call("substring", c("text"), v(_start), v(_count)))
case("substring(text, k, 3)", call("substring", c("text"), c("k"), v(3)))
case("substring(text, k)", call("substring", c("text"), c("k"), v(2147483647)))
case("left(text, k)", call("left", c("text"), c("k")))
case("right(text, k)", call("right", c("text"), c("k")))
case("concat(text, part, 'z')", call("concat", c("text"), c("part"), v("z")))
case("concat_ws('-', text, part, 'z')", call("concat_ws", v("-"), c("text"), c("part"), v("z")))
for _name in ("contains", "startswith", "endswith"):
    case(f"{_name}(text, part)", call(_name, c("text"), c("part")))
    case(f"{_name}(text, 'a')", call(_name, c("text"), v("a")))
for _pattern in ("a%", "%b", "%b%", "abc", "a_c", "%", "_", "100\\\\%", "%\\\\_%", "h_llo%", "%\\n%", "", "a%c", "日%"):
    case(f"text like '{_pattern}'", call("like", c("text"), v(_pattern.replace("\\\\", "\\").replace("\\n", "\n"))))
case("text like '100!%' escape '!'", call("like", c("text"), v("100!%"), v("!")))
for _pattern in (
    r"\\d+",
    "^a",
    "c$",
    "[a-z]+\\\\d",
    r"\\w+\\s\\w+",
    r"\\bD",
    "x.y",
    "(a|b){2}",
    "[^a-z]",
    r"\\.",
    "l.n",
):
    case(f"text rlike '{_pattern}'", call("rlike", c("text"), v(_pattern.replace("\\\\", "\\"))))
case(r"regexp_extract(text, '([a-z]+)(\\d+)', 2)", call("regexp_extract", c("text"), v(r"([a-z]+)(\d+)"), v(2)))
case(r"regexp_extract(text, '(x)?b', 1)", call("regexp_extract", c("text"), v("(x)?b"), v(1)))
case(r"regexp_replace(text, '[aeiou]', '<$0>')", call("regexp_replace", c("text"), v("[aeiou]"), v("<$0>")))
case(r"regexp_replace(text, '(\\w)(\\w)', '$2$1')", call("regexp_replace", c("text"), v(r"(\w)(\w)"), v("$2$1"), v(1)))
case("replace(text, 'a', 'XX')", call("replace", c("text"), v("a"), v("XX")))
case("replace(text, '', 'XX')", call("replace", c("text"), v(""), v("XX")))
case("translate(text, 'abcé', 'xy')", call("translate", c("text"), v("abcé"), v("xy")))
case("split(text, ',')", call("split", c("text"), v(","), v(-1)))
case(r"split(text, '\\s+')", call("split", c("text"), v(r"\s+"), v(-1)))
for _width in (-1, 0, 3, 8):
    for _pad in ("", "é", "xy"):
        case(f"lpad(text, {_width}, '{_pad}')", call("lpad", c("text"), v(_width), v(_pad)))
        case(f"rpad(text, {_width}, '{_pad}')", call("rpad", c("text"), v(_width), v(_pad)))
case("repeat(text, k)", call("repeat", c("text"), c("k")))
case("space(k)", call("space", c("k")))
for _part in ("", "b", "l", "語"):
    case(f"instr(text, '{_part}')", call("instr", c("text"), v(_part)))
    for _from in (-1, 0, 1, 3, 50):
        case(f"locate('{_part}', text, {_from})", call("locate", v(_part), c("text"), v(_from)))
case("hex(raw)", call("hex", c("raw")))
case("hex(l)", call("hex", c("l")))
case("base64(raw)", call("base64", c("raw")))
case("base64(cast(repeat('x', id) as binary))", call("base64", cast(_repeated, t.BINARY), v(True)))
for _name in ("md5", "sha1", "crc32"):
    case(f"{_name}(raw)", call(_name, c("raw")))
    case(f"{_name}(text)", call(_name, cast(c("text"), t.BINARY)))
for _bits in (0, 224, 256, 384, 512, 100):
    case(f"sha2(raw, {_bits})", call("sha2", c("raw"), v(_bits)))
for _part in (",", "", "é", "a", "b,"):
    for _n in (-4, -2, -1, 1, 2, 3, 9):
        case(f"split_part(text, '{_part}', {_n})", call("split_part", c("text"), v(_part), v(_n)))
        case(f"substring_index(text, '{_part}', {_n})", call("substring_index", c("text"), v(_part), v(_n)))
case("split_part(text, ',', 0)", call("split_part", c("text"), v(","), v(0)))
case("substring_index(text, ',', 0)", call("substring_index", c("text"), v(","), v(0)))
for _name in ("b", "s", "i", "l", "f", "d", "text", "number", "flag", "day", "ts", "ntz", "span", "m", "raw"):
    case(f"xxhash64({_name})", call("xxhash64", c(_name), v(42, t.LONG)))
    case(f"xxhash64(k, {_name}, part)", call("xxhash64", c("k"), c(_name), c("part"), v(42, t.LONG)))
case("xxhash64(repeat('x', id))", call("xxhash64", _repeated, v(42, t.LONG)))
case("xxhash64(id, repeat('é', id))", call("xxhash64", _id, call("repeat", v("é"), _id, type=t.STRING), v(42, t.LONG)))
case("length(raw)", call("length", c("raw")))

# -- dates and times ----------------------------------------------------------------------------------------------------
for _name in ("year", "month", "day", "dayofmonth", "dayofweek", "weekday", "dayofyear", "quarter", "weekofyear"):
    case(f"{_name}(day)", call(_name, c("day")))
for _name in ("hour", "minute", "second"):
    case(f"{_name}(ts)", call(_name, c("ts")))
    case(f"{_name}(ntz)", call(_name, c("ntz")))
for _unit in (
    "year",
    "QUARTER",
    "month",
    "week",
    "day",
    "hour",
    "minute",
    "second",
    "millisecond",
    "microsecond",
    "bad",
):
    case(f"date_trunc('{_unit}', ts)", call("date_trunc", v(_unit), c("ts")))
for _unit in ("year", "quarter", "MM", "week", "day", "bad"):
    case(f"trunc(day, '{_unit}')", call("trunc", c("day"), v(_unit)))
case("date_add(day, k)", call("date_add", c("day"), c("k")))
case("date_sub(day, k)", call("date_sub", c("day"), c("k")))
case("datediff(day, day2)", call("datediff", c("day"), c("day2")))
case("add_months(day2, k)", call("add_months", c("day2"), c("k")))
case("last_day(day)", call("last_day", c("day")))
case(
    "make_date(2023 + k, k + 1, 29)",
    call("make_date", call("add", v(2023), c("k"), type=t.INTEGER), call("add", c("k"), v(1), type=t.INTEGER), v(29)),
)
case("ts + span", call("timestampaddinterval", c("ts"), c("span")))
case("ntz + span", call("timestampaddinterval", c("ntz"), c("span")))
case("ts + interval 1 day", call("timeadd", c("ts"), v(86_400_000_000, t.DAY_TIME_INTERVAL)))
case(
    "ts - interval 90 minutes",
    call(
        "timeadd", c("ts"), call("unaryminus", v(timedelta(minutes=90), t.DAY_TIME_INTERVAL), type=t.DAY_TIME_INTERVAL)
    ),
)
case("ts - ts2", call("subtracttimestamps", c("ts"), c("ts2")))
case("day - day2", call("subtractdates", c("day"), c("day2")))
for _name in ("unix_seconds", "unix_millis", "unix_micros", "unix_timestamp"):
    case(f"{_name}(ts)", call(_name, c("ts")))
case("unix_date(day)", call("unix_date", c("day")))
case("timestamp_seconds(k)", call("timestamp_seconds", c("k")))
case("timestamp_seconds(p)", call("timestamp_seconds", c("p")))
case("timestamp_millis(epoch)", call("timestamp_millis", c("epoch")))
case("timestamp_micros(epoch)", call("timestamp_micros", c("epoch")))
case("from_unixtime(epoch)", call("from_unixtime", c("epoch"), v("yyyy-MM-dd HH:mm:ss")))
for _format in (
    "yyyy-MM-dd",
    "yyyy-MM-dd HH:mm:ss.SSS",
    "dd/MM/yy h:mm a",
    "EEE, d MMM yyyy",
    "EEEE MMMM",
    "DDD H m s",
    "yyyy-MM-dd\\'T\\'HH:mm:ss",
    "HHmm",
):
    case(f"date_format(ts, '{_format}')", call("date_format", c("ts"), v(_format.replace("\\'", "'"))))
for _format in ("yyyy-MM-dd HH:mm:ss", "yyyy/MM/dd", "dd.MM.yyyy HH:mm"):
    case(f"to_timestamp(patterned, '{_format}')", call("gettimestamp", c("patterned"), v(_format)))
    case(f"unix_timestamp(patterned, '{_format}')", call("unix_timestamp", c("patterned"), v(_format)))
    case(f"try_to_timestamp(patterned, '{_format}')", call("gettimestamp", c("patterned"), v(_format), ansi=False))
case("from_utc_timestamp(ts, 'Asia/Tokyo')", call("from_utc_timestamp", c("ts"), v("Asia/Tokyo")))
case("to_utc_timestamp(ts, 'America/New_York')", call("to_utc_timestamp", c("ts"), v("America/New_York")))

# -- mathematics --------------------------------------------------------------------------------------------------------
for _name in (
    "sqrt",
    "exp",
    "ln",
    "log10",
    "log2",
    "log1p",
    "signum",
    "cbrt",
    "degrees",
    "radians",
    "sin",
    "cos",
    "atan",
    "asin",
    "acos",
    "expm1",
):
    case(f"{_name}(p)", call(_name, c("p")))
case("log(p)", call("log", c("p")))
case("log(2.0D, p)", call("log", v(2.0), c("p")))
case("pow(p, d)", call("pow", c("p"), c("d")))
case("floor(d)", call("floor", c("d")))
case("ceil(d)", call("ceil", c("d")))
case("floor(l)", call("floor", c("l")))
for _a in ("m", "x"):
    case(f"floor({_a})", call("floor", c(_a)))
    case(f"ceil({_a})", call("ceil", c(_a)))
for _digits in (-2, -1, 0, 1, 2, 5):
    for _a in ("d", "f", "i", "l", "b", "m", "x"):
        case(f"round({_a}, {_digits})", call("round", c(_a), v(_digits)))
    case(f"bround(d, {_digits})", call("bround", c("d"), v(_digits)))
    case(f"bround(m, {_digits})", call("bround", c("m"), v(_digits)))

_INEXACT = (
    "exp",
    "ln",
    "log10",
    "log2",
    "log1p",
    "log",
    "pow",
    "cbrt",
    "sin",
    "cos",
    "atan",
    "asin",
    "acos",
    "expm1",
    "degrees",
    "radians",
)

# -- collections --------------------------------------------------------------------------------------------------------
case("array(i, k)", call("array", c("i"), c("k")))
for _a in ("xs", "words", "dict"):
    case(f"size({_a})", call("size", c(_a)))
case("xs[k]", call("getarrayitem", c("xs"), c("k")))
case("element_at(xs, k)", call("element_at", c("xs"), c("k")))
case("try_element_at(xs, 2)", call("try_element_at", c("xs"), v(2), ansi=False))
case("array_contains(xs, 1)", call("array_contains", c("xs"), v(1)))
case("array_contains(xs, k)", call("array_contains", c("xs"), c("k")))
case("array_join(words, '-')", call("array_join", c("words"), v("-")))
case("array_join(words, '-', '?')", call("array_join", c("words"), v("-"), v("?")))
case("sort_array(xs)", call("sort_array", c("xs"), v(True)))
case("sort_array(xs, false)", call("sort_array", c("xs"), v(False)))
case("array_distinct(words)", call("array_distinct", c("words")))
case("array_max(xs)", call("array_max", c("xs")))
case("array_min(xs)", call("array_min", c("xs")))
case("reverse(words)", call("reverse", c("words")))
case("concat(xs, array(9))", call("concat", c("xs"), call("array", v(9), type=t.Array(t.INTEGER))))
case("dict['a']", call("getmapvalue", c("dict"), v("a")))
case("element_at(dict, 'b')", call("element_at", c("dict"), v("b")))
case("map_keys(dict)", call("map_keys", c("dict")))
case("map_values(dict)", call("map_values", c("dict")))
case("pair.b", FieldOf(c("pair"), "b", t.STRING))
case(
    "named_struct('n', k, 't', text)",
    MakeStruct((("n", c("k")), ("t", c("text"))), t.Struct((Field("n", t.INTEGER), Field("t", t.STRING)))),
)

# -- casts --------------------------------------------------------------------------------------------------------------
_CASTS: dict[str, tuple[DataType, ...]] = {
    "b": (t.INTEGER, t.DOUBLE, t.STRING, t.BOOLEAN, t.Decimal(4, 1)),
    "i": (t.BYTE, t.SHORT, t.LONG, t.FLOAT, t.DOUBLE, t.STRING, t.BOOLEAN, t.Decimal(10, 2), t.Decimal(12, 2), t.TIMESTAMP),
    "l": (t.BYTE, t.INTEGER, t.FLOAT, t.DOUBLE, t.STRING, t.Decimal(20, 0), t.Decimal(38, 18), t.Decimal(5, 0)),
    "epoch": (t.TIMESTAMP,),
    "f": (t.INTEGER, t.LONG, t.DOUBLE, t.STRING, t.Decimal(12, 3), t.BOOLEAN),
    "d": (t.BYTE, t.INTEGER, t.LONG, t.FLOAT, t.STRING, t.Decimal(12, 3), t.Decimal(38, 4), t.BOOLEAN),
    "p": (t.TIMESTAMP,),
    "number": (t.BYTE, t.INTEGER, t.LONG, t.FLOAT, t.DOUBLE, t.BOOLEAN, t.Decimal(10, 2), t.Decimal(38, 18)),
    "time": (t.DATE, t.TIMESTAMP, t.TIMESTAMP_NTZ),
    "text": (t.BINARY,),
    "flag": (t.STRING, t.INTEGER, t.DOUBLE, t.Decimal(3, 1)),
    "day": (t.STRING, t.TIMESTAMP, t.TIMESTAMP_NTZ),
    "ts": (t.STRING, t.DATE, t.LONG, t.INTEGER, t.DOUBLE, t.TIMESTAMP_NTZ),
    "ntz": (t.STRING, t.DATE, t.TIMESTAMP),
    "m": (t.STRING, t.INTEGER, t.BYTE, t.DOUBLE, t.BOOLEAN, t.Decimal(10, 1), t.Decimal(6, 2), t.Decimal(38, 18)),
    "x": (t.STRING, t.LONG, t.DOUBLE, t.FLOAT, t.Decimal(10, 2), t.Decimal(38, 10), t.Decimal(38, 20)),
    "whole": (t.LONG, t.Decimal(38, 18), t.STRING),
    "xs": (t.Array(t.LONG),),
}  # fmt: skip
for _name, _targets in _CASTS.items():
    for _to in _targets:
        case(f"cast({_name} as {t.simple_string(_to)})", cast(c(_name), _to))
        case(f"try_cast({_name} as {t.simple_string(_to)})", cast(c(_name), _to, ansi=False))


@dataclass(frozen=True)
class Answers:
    """What both sides say to one case. ``failed``: row → error class, by our guards; ``theirs`` has null for these rows."""

    ours: list[Any]
    failed: dict[int, str]
    theirs: list[Any] | Exception


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """Made in UTC: the way from Arrow into Spark refuses local times that the session's zone does not have."""
    return spark.createDataFrame(TABLE, SPARK_SCHEMA)


@pytest.fixture(scope="module", params=ZONES)
def answers(request: pytest.FixtureRequest, spark: SparkSession, rows: DataFrame) -> Iterator[dict[str, Answers]]:
    before = {key: spark.conf.get(key) for key in ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")}
    spark.conf.set("spark.sql.session.timeZone", request.param)
    spark.conf.set("spark.sql.ansi.enabled", "true")
    result: dict[str, Answers] = {}
    for start in range(0, len(CASES), BATCH):
        result |= _answers(rows, CASES[start : start + BATCH], request.param)
    yield result
    for key, value in before.items():
        spark.conf.set(key, value)


def _answers(rows: DataFrame, cases: list[tuple[str, Expression]], zone: str) -> dict[str, Answers]:
    """One query of Spark for many cases: a session is slow to plan and fast to compute."""
    kinds = [_plan_type(field.dataType) for field in rows.selectExpr(*(sql for sql, _ in cases)).schema]
    ours = [_ours(_typed(expression, kind, zone)) for (_, expression), kind in zip(cases, kinds, strict=True)]
    # Spark evaluates only the branch that a row takes: rows that we say are in error are asked about separately.
    columns = [
        f"if(id in ({', '.join(map(str, failed)) or '-1'}), null, {sql}) as v{n}"
        for n, ((sql, _), (_, failed)) in enumerate(zip(cases, ours, strict=True))
    ]
    schema = tuple(Field(f"v{n}", kind) for n, kind in enumerate(kinds))
    theirs: list[list[Any] | Exception]
    try:
        frame = from_arrow(rows.selectExpr(*columns).toArrow(), schema)
        theirs = [_values(frame[f"v{n}"]) for n in range(len(cases))]
    except PySparkException:
        theirs = [_alone(rows, column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return {
        sql: Answers(values, failed, spark_values)
        for (sql, _), (values, failed), spark_values in zip(cases, ours, theirs, strict=True)
    }


def _alone(rows: DataFrame, column: str, kind: DataType) -> list[Any] | Exception:
    try:
        return _values(from_arrow(rows.selectExpr(column).toArrow(), (Field("v", kind),))["v"])
    except PySparkException as error:
        return error


def _ours(expression: Expression) -> tuple[list[Any], dict[int, str]]:
    assert supported(expression) is None, supported(expression)
    compiled = compile_expression(expression)
    marks = {f"error{n}": guard.condition for n, guard in enumerate(compiled.guards)}
    frame = FRAME.select("id", v=compiled.value, **marks)
    assert frame.schema["v"] == polars_schema((Field("v", expression.type),))["v"], expression
    failed: dict[int, str] = {}
    for n, guard in reversed(list(enumerate(compiled.guards))):
        failed |= dict.fromkeys(frame.filter(pl.col(f"error{n}"))["id"], guard.error)
    return _values(frame["v"]), failed


def _values(of: pl.Series) -> list[Any]:
    """Temporal values as integers: Python's own end with the year 9999."""
    return (of.to_physical() if of.dtype.is_temporal() else of).to_list()


@pytest.mark.parametrize(("sql", "expression"), CASES, ids=[sql for sql, _ in CASES])
def test_equals_spark(answers: dict[str, Answers], sql: str, expression: Expression) -> None:
    of = answers[sql]
    if isinstance(of.theirs, Exception):
        pytest.fail(f"Spark raises where we do not: {_condition(of.theirs)} {str(of.theirs)[:300]}")
    different = [
        f"{_inputs(expression, row)} → ours {a!r}, Spark's {b!r}"
        for row, (a, b) in enumerate(zip(of.ours, of.theirs, strict=True))
        if row not in of.failed and not _same(a, b, inexact=sql.partition("(")[0] in _INEXACT)
    ]
    assert not different, "\n".join(different[:12])


@pytest.mark.parametrize("answers", ["UTC"], indirect=True)  # a query per error is slow, and zones raise the same
def test_where_we_raise_spark_raises_the_same(answers: dict[str, Answers], rows: DataFrame) -> None:
    with quickly(rows.sparkSession):
        wrong = [
            f"{sql} of {_inputs(expression, row)}: we say {error}, Spark {other}"
            for sql, expression in CASES
            for row, error in _one_per_class(answers[sql].failed)
            if (other := _other_than(error, rows.where(f"id = {row}").selectExpr(f"{sql} as v")))
        ]
    assert not wrong, "\n".join(wrong)


def _other_than(error: str, asked: DataFrame) -> str:
    """What Spark does instead of raising ``error``; nothing if it does."""
    try:
        return f"gives {asked.toArrow()['v'][0]}"
    except PySparkException as raised:
        condition = _condition(raised)
        return "" if condition.split(".")[0] == error else f"raises {condition}"


def _typed(expression: Expression, kind: DataType, zone: str) -> Expression:
    """The case with its result type from Spark, in the session's zone."""
    typed = replace(expression, type=kind) if expression.type == UNTYPED else expression
    assert typed.type == kind, f"{typed.type} is not Spark's {kind}"
    return _in_zone(typed, zone)


def _one_per_class(failed: dict[int, str]) -> list[tuple[int, str]]:
    first = {error: row for row, error in reversed(failed.items())}
    return [(row, error) for error, row in first.items()]


def _condition(error: Any) -> str:
    found = error.getCondition() if hasattr(error, "getCondition") else None
    return found or "".join(ch for ch in str(error).partition("]")[0] if ch in string.ascii_uppercase + "_.")


def _inputs(expression: Expression, row: int) -> dict[str, Any]:
    from tidegate.plan.expressions import columns_of

    return FRAME.filter(pl.col("id") == row).select(sorted(columns_of(expression))).row(0, named=True)


def _same(a: Any, b: Any, *, inexact: bool = False) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        # Transcendental functions may differ in the last bits between libraries, nothing else may.
        close = inexact and math.isclose(a, b, rel_tol=1e-14)
        return (math.isnan(a) and math.isnan(b)) or a == b or close
    return a == b


def _plan_type(of: Any) -> DataType:
    from pyspark.sql import types as spark_types

    match of:
        case spark_types.DecimalType():
            return t.Decimal(of.precision, of.scale)
        case spark_types.ArrayType():
            return t.Array(_plan_type(of.elementType))
        case spark_types.StructType():
            return t.Struct(tuple(Field(field.name, _plan_type(field.dataType)) for field in of.fields))
        case spark_types.DayTimeIntervalType():
            return t.DAY_TIME_INTERVAL
        case _:
            return t.Atomic(of.simpleString())


def _in_zone(of: Expression, zone: str) -> Expression:
    match of:
        case Call():
            return replace(of, zone=zone, args=tuple(_in_zone(arg, zone) for arg in of.args))
        case Cast():
            return replace(of, zone=zone, child=_in_zone(of.child, zone))
        case _:
            return of


def test_rows_survive_the_way_to_arrow_and_back() -> None:
    schema = (*PLAN_SCHEMA, Field("id", t.INTEGER))
    assert from_arrow(to_arrow(FRAME, schema), schema).equals(FRAME)
    assert to_arrow(FRAME, schema).schema == TABLE.schema
    assert conform(FRAME, schema) is FRAME
