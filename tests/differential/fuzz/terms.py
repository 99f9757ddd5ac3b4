"""Random SQL expressions of a wanted type. A term is a tree, so that one that fails can be made smaller."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random

LONG, DOUBLE, STRING, BOOLEAN = "bigint", "double", "string", "boolean"
TIMESTAMP, DATE, DECIMAL, STRINGS = "timestamp", "date", "decimal", "array<string>"
Columns = Mapping[str, str]
"""Name → type; whole numbers of any width count as ``bigint``."""

LEAVES = {
    LONG: ("0", "1", "-7", "3", "1000", "cast(null as bigint)"),
    DOUBLE: ("0.5D", "-2.25D", "8.0D", "cast(null as double)"),
    STRING: ("'ann'", "''", "'Zoë'", "'日本 🎈'", "' padded '", "cast(null as string)"),
    BOOLEAN: ("true", "false", "cast(null as boolean)"),
    TIMESTAMP: ("timestamp'2026-03-02 00:00:00'", "timestamp'1969-12-31 23:59:59.999999'"),
    DATE: ("date'2024-02-29'", "date'1969-12-31'", "cast(null as date)"),
    DECIMAL: ("cast(1.50 as decimal(12,2))", "cast(-0.01 as decimal(12,2))"),
    STRINGS: ("array('ann', '', null)", "cast(array() as array<string>)"),
}

_TEXT = {
    LONG: r"""
        {L} + {L}; {L} - {L}; {L} * 3; - {L}; pmod({L}, 7); {L} % 5; {L} div 4; abs({L}); {L} & 12; {L} | 3; {L} ^ 5; ~ {L}; sign({L})
        length({S}); octet_length({S}); instr({S}, {S}); locate('a', {S}); ascii({S}); levenshtein({S}, {S}); pmod(hash({L}, {S}), 97); pmod(xxhash64({S}, {L}), 97)
        coalesce({L}, {L}); case when {B} then {L} else {L} end; if({B}, {L}, {L}); nullif({L}, {L}); nvl2({S}, {L}, {L})
        greatest({L}, {L}); least({L}, {L}, {L}); cast({B} as bigint); floor({D}); ceil({D}); shiftleft({L}, 2)
        year({Y}); month({T}); dayofmonth({Y}); dayofweek({Y}); hour({T}); minute({T}); second({T}); quarter({Y}); weekofyear({Y})
        datediff({Y}, {Y}); unix_timestamp({T}); size({A}); array_position({A}, {S}); crc32(encode({S}, 'utf-8'))""",
    DOUBLE: r"""
        {D} + {D}; {D} * 0.5D; {D} - {D}; {L} / 4; round({D}, 1); bround({D}, 0); sqrt(abs({D})); cast({L} as double); cast({C} as double)
        coalesce({D}, {D}); abs({D}); case when {B} then {D} end; try_divide({D}, {L}); greatest({D}, {D}); nanvl({D}, {D}); sign({D})""",
    STRING: r"""
        upper({S}); lower({S}); initcap({S}); concat({S}, {S}); concat_ws('-', {S}, {S}); substring({S}, 1, 3); substring({S}, -2, 2)
        trim({S}); ltrim({S}); rtrim({S}); lpad({S}, 5, '*'); rpad({S}, 4, 'ab'); reverse({S}); repeat({S}, 2); left({S}, 2); right({S}, 2)
        replace({S}, 'a', 'ü'); translate({S}, 'an', 'x'); overlay({S} placing 'X' from 2); substring_index({S}, 'n', 1); split_part({S}, ' ', 1)
        coalesce({S}, {S}); nullif({S}, {S}); case when {B} then {S} else {S} end; try_element_at({A}, 1); array_join({A}, ',')
        cast({L} as string); cast({Y} as string); cast({B} as string); cast({C} as string); date_format({T}, 'yyyy-MM-dd HH:mm')
        md5({S}); sha2({S}, 256); hex({L}); bin({L}); base64(encode({S}, 'utf-8')); soundex({S})
        regexp_replace({S}, '[aeiou]', '.'); regexp_extract({S}, '([a-z]+)', 1)""",
    BOOLEAN: r"""
        {L} > {L}; {L} = {L}; {L} <= {L}; {L} <> {L}; {L} in (1, 2, 3); {L} between -10 and 100; {L} is not null; {S} is null
        {S} = {S}; {S} <=> {S}; {S} < {S}; {S} in ('ann', 'bob'); {S} like 'a%'; {S} like '%n_'; {S} rlike '^[a-z]+$'
        startswith({S}, 'a'); endswith({S}, 'e'); contains({S}, 'n'); {B} and {B}; {B} or {B}; not {B}; coalesce({B}, {B})
        {T} > {T}; {Y} < {Y}; {D} > {D}; {D} <=> {D}; isnan({D}); {C} >= {C}
        array_contains({A}, 'ann'); arrays_overlap({A}, {A}); exists({A}, x -> x = 'ann')""",
    TIMESTAMP: r"""
        date_trunc('minute', {T}); date_trunc('hour', {T}); {T} + interval 3 seconds; {T} - interval 1 day; {T} + interval 1 month
        coalesce({T}, {T}); greatest({T}, {T}); cast({Y} as timestamp); timestamp_seconds(pmod({L}, 1000))""",
    DATE: r"""
        cast({T} as date); date_add({Y}, 3); date_sub({Y}, 40); add_months({Y}, 1); last_day({Y}); next_day({Y}, 'MON'); trunc({Y}, 'MM')
        coalesce({Y}, {Y}); least({Y}, {Y}); make_date(2024, cast(1 + pmod({L}, 12) as int), 28)""",
    DECIMAL: r"""
        cast(pmod({L}, 100000) as decimal(12,2)); cast({C} + 1.5 as decimal(14,2)); cast({C} * 2 as decimal(14,2)); round({C}, 1)
        coalesce({C}, {C}); abs({C}); - {C}; case when {B} then {C} end""",
    STRINGS: r"""
        split({S}, ' '); array({S}, {S}); sort_array({A}); array_sort({A}); array_distinct({A}); array_compact({A}); slice({A}, 1, 2); reverse({A})
        coalesce({A}, {A}); concat({A}, {A}); array_union({A}, {A}); array_except({A}, array('ann')); array_remove({A}, 'ann')
        filter({A}, x -> x is not null); transform({A}, x -> upper(x))""",
}
RULES = {
    kind: tuple(rule.strip() for line in text.strip().splitlines() for rule in line.split(";"))
    for kind, text in _TEXT.items()
}
_LETTERS = {"L": LONG, "D": DOUBLE, "S": STRING, "B": BOOLEAN, "T": TIMESTAMP, "Y": DATE, "C": DECIMAL, "A": STRINGS}
_HOLE = re.compile(r"\{([LDSBTYCA])\}")


@dataclass(frozen=True, slots=True)
class Term:
    """``rule`` with a hole for each of ``args``; a column or literal has none."""

    type: str
    rule: str
    args: tuple[Term, ...] = ()

    @property
    def text(self) -> str:
        texts = iter([f"({arg.text})" if arg.args else arg.text for arg in self.args])
        return _HOLE.sub(lambda _: next(texts), self.rule)

    def smaller(self) -> Iterator[Term]:
        """The most drastic first: a leaf of the type, a part of the same type, then the same with one part made smaller."""
        if not self.args:
            return
        yield Term(self.type, LEAVES[self.type][0])
        yield from (part for part in self.parts() if part.type == self.type)
        for index, arg in enumerate(self.args):
            for less in arg.smaller():
                yield Term(self.type, self.rule, (*self.args[:index], less, *self.args[index + 1 :]))

    def parts(self) -> Iterator[Term]:
        for arg in self.args:
            yield arg
            yield from arg.parts()

    def columns(self, known: Columns) -> set[str]:
        own = {self.rule} if not self.args and self.rule in known else set()
        return own.union(*(arg.columns(known) for arg in self.args))


def random_term(random: Random, kind: str, columns: Columns, depth: int = 3) -> Term:
    named = [name for name, of in columns.items() if of == kind]
    if depth == 0 or random.random() < 0.15:
        usable = named if named and random.random() < 0.85 else LEAVES[kind]
        return Term(kind, random.choice(usable))
    rule = random.choice(RULES[kind])
    args = tuple(random_term(random, _LETTERS[hole], columns, depth - 1) for hole in _HOLE.findall(rule))
    return Term(kind, rule, args)
