"""Values for golden documents: one of any type, and rows with columns of every kind."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec
import polars as pl


def every_kind_of_column() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "short": [1, None],
            "long": [1 << 40, -3],
            "double": [0.5, None],
            "word": ["a", "ü" * 40],
            "bytes": [b"\x00", None],
            "flag": [True, None],
            "at": [datetime(2024, 1, 1, 12, 30, 0, 123_456), None],
            "price": [Decimal("1.20"), Decimal("-3.45")],
            "list": [[1, 2], []],
            "record": [{"x": 1, "y": "z"}, None],
        }
    )


def _other_than(default: Any, value: Any) -> Any:
    return not value if value is default and isinstance(value, bool) else value


def sample(of: Any) -> Any:
    info = msgspec.inspect
    match of:
        case info.IntType():
            return 12
        case info.FloatType():
            return 1.5
        case info.StrType():
            return "word"
        case info.BytesType():
            return b"bytes"
        case info.BoolType():
            return True
        case info.EnumType(cls=cls):
            return next(iter(cls))
        case info.LiteralType(values=values):
            return values[0]
        case info.UnionType(types=types):
            return sample(next(one for one in types if not isinstance(one, info.NoneType)))
        case info.TupleType(item_types=types):
            return tuple(map(sample, types))
        case info.VarTupleType(item_type=one):
            return (sample(one),)
        case info.ListType(item_type=one):
            return [sample(one)]
        case info.FrozenSetType(item_type=one):
            return frozenset((sample(one),))
        case info.DictType(key_type=key, value_type=value):
            return {sample(key): sample(value)}
        case info.StructType(cls=cls, fields=fields):
            return cls(**{field.name: _other_than(field.default, sample(field.type)) for field in fields})
        case _:
            raise TypeError(f"no sample of {of}")
