"""Functions of text, encodings and numbers in projections and conditions."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.differential.compare import Rules
from tests.differential.corpus import query
from tests.differential.harness import Sources


@query()
def texts_measured(s: Sources) -> DataFrame:
    return s.events.select(
        "id",
        F.levenshtein("key", "text").alias("far"),
        F.levenshtein("key", F.lit("bob"), 2).alias("near"),
        F.soundex("text").alias("sound"),
        F.octet_length("text").alias("bytes"),
        F.bit_length("key").alias("bits"),
    )


@query()
def texts_overlaid_and_masked(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "overlay(text placing '__' from 3) as o",
        "mask(text) as m",
        "mask(key, 'U', 'l', 'd', '?') as n",
        "quote(key) as q",
    )


@query()
def texts_chosen_by_number(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "if(grp between 1 and 2, elt(grp, key, text), '-') as e",
        "find_in_set(key, 'ann,bob,Zoë') as f",
        "grp between 1 and 2 as g",
    )


@query()
def bytes_written_as_text(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "hex(raw) as h",
        "unhex(hex(raw)) as u",
        "base64(raw) as b",
        "unbase64(base64(raw)) as c",
        "encode(key, 'UTF-16') as e",
        "decode(encode(key, 'UTF-8'), 'UTF-8') as d",
        "to_binary(hex(raw), 'hex') as t",
    )


@query()
def characters_by_code(s: Sources) -> DataFrame:
    return s.events.selectExpr("id", "chr(amount) as c", "ascii(key) as a", "char(65 + grp) as d")


@query()
def urls_taken_apart(s: Sources) -> DataFrame:
    return s.bids.selectExpr(
        "auction",
        "parse_url(url, 'HOST') as host",
        "parse_url(url, 'PATH') as path",
        "parse_url(url, 'QUERY', 'channel_id') as channel",
        "url_decode(url_encode(url)) = url as same",
        "url_encode(channel) as encoded",
    )


@query()
def directories_of_urls(s: Sources) -> DataFrame:
    """Nexmark's query 22: the parts of a path."""
    return s.bids.selectExpr(
        "auction",
        "split_part(url, '/', 4) as dir1",
        "split(url, '/')[4] as dir2",
        "element_at(split(url, '/'), -1) as last",
    )


@query()
def channels_by_condition(s: Sources) -> DataFrame:
    """Nexmark's query 21: a channel's number by name or from the URL."""
    return s.bids.selectExpr(
        "auction",
        """CASE WHEN lower(channel) = 'apple' THEN '0' WHEN lower(channel) = 'google' THEN '1' WHEN lower(channel) = 'facebook' THEN '2'
           WHEN lower(channel) = 'baidu' THEN '3' ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id""",
    ).where("channel_id is not null or channel in ('apple', 'google')")


@query()
def bids_by_hour_of_day(s: Sources) -> DataFrame:
    """Nexmark's query 14: night and day, and how often a letter occurs."""
    return s.bids.selectExpr(
        "auction",
        "0.908 * price as price",
        "CASE WHEN hour(date_time) >= 8 AND hour(date_time) <= 18 THEN 'dayTime' WHEN hour(date_time) <= 6 OR hour(date_time) >= 20"
        " THEN 'nightTime' ELSE 'otherTime' END AS bidTimeType",
        "length(url) - length(replace(url, 'c', '')) AS c_counts",
    ).where("price > 1000 and price < 50000000")


@query()
def all_matches_of_a_pattern(s: Sources) -> DataFrame:
    return s.bids.selectExpr(
        "auction",
        "regexp_extract_all(url, '([0-9]+)', 1) as numbers",
        "regexp_count(url, '[aeiou]') as vowels",
        "regexp_instr(url, '[0-9]') as first",
        "regexp_substr(url, 'item[.]\\\\w+') as file",
    )


@query()
def texts_joined(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "concat_ws('-', tags, key) as a",
        "concat_ws(key, text, 'x') as b",
        "array_join(tags, ';', '?') as c",
        "instr(text, key) as d",
    )


@query()
def numbers_printed(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "format_number(price, 2) as a",
        "format_number(huge, 1) as b",
        "format_number(cost, 1) as c",
        "format_string('%s has %d of %.1f', key, amount, price) as d",
        "printf('%08d|%-6d|', amount, grp) as e",
    )


@query()
def numbers_in_other_bases(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "bin(amount) as a",
        "conv(string(amount), 10, 16) as b",
        "conv(hex(huge), 16, -10) as c",
        "bit_count(huge) as d",
    )


@query()
def bits_shifted(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "huge >>> 3 as a",
        "shiftrightunsigned(grp, 1) as b",
        "getbit(huge, 63) as c",
        "bit_get(amount, 2) as d",
        "~grp & 7 as e",
    )


@query(rules=Rules(approximate=("a", "b", "c", "d", "e", "f"), keys=("id",)))
def hyperbolic_functions(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "sinh(grp) as a",
        "cosh(grp) as b",
        "tanh(price) as c",
        "asinh(price) as d",
        "atan2(price, grp) as e",
        "hypot(price, grp) as f",
    )


@query(rules=Rules(approximate=("a", "b", "c", "d"), keys=("id",)))
def reciprocal_trigonometry(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id", "cot(price + 0.5) as a", "sec(price) as b", "csc(price + 0.5) as c", "atanh(grp / 10) as d"
    )


@query()
def numbers_put_in_buckets(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "width_bucket(price, -100000D, 100000D, 10) as a",
        "factorial(grp) as b",
        "rint(price) as c",
        "ceil(cost, 1) as d",
        "floor(cost, -1) as e",
    )


@query()
def hashes_of_rows(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "hash(id, key, price, day) as a",
        "hash(text) as b",
        "xxhash64(key, ts) as c",
        "md5(key) as d",
        "crc32(text) as e",
    )


@query()
def values_by_default(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "zeroifnull(amount) as a",
        "nullifzero(grp) as b",
        "decode(grp, 1, 'one', 2, 'two', 'many') as c",
        "typeof(cost) as d",
        "ifnull(key, '') as e",
    )


@query()
def errors_only_where_evaluated(s: Sources) -> DataFrame:
    return s.events.where("grp > 0").selectExpr(
        "id",
        "if(grp > 0, id, raise_error('never')) as a",
        "cast(assert_true(grp > 0) as string) as b",
        "try_to_binary(key, 'hex') as c",
    )
