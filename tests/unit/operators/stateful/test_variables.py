"""How the schema of a state variable may change between two starts of a query."""

from __future__ import annotations

import msgspec
import pytest

from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.model.types import Field, Schema
from tidegate.operators.stateful.variables import Declared, ValueCodec, VariableKind, Variables
from tidegate.operators.user_functions import record_maker

V1: Schema = (Field("id", t.INTEGER), Field("name", t.STRING))


def evolved(new: Schema, old: Schema = V1) -> tuple[ValueCodec, ValueCodec]:
    """Codecs before and after a restart with another schema, through a snapshot."""
    before = Variables()
    first = before.declare("v", VariableKind.VALUE, old)
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(before.all), type=tuple[Declared, ...])
    second = Variables(stored).declare("v", VariableKind.VALUE, new)
    return ValueCodec(first, record_maker), ValueCodec(second, record_maker)


def test_a_field_that_was_added_is_null_in_old_values() -> None:
    old, new = evolved((*V1, Field("email", t.STRING)))
    assert new.decode(old.encode((1, "a"))) == (1, "a", None)
    assert new.decode(new.encode((1, "a", "x"))) == (1, "a", "x")


def test_fields_may_be_removed_and_reordered() -> None:
    old, new = evolved((Field("name", t.STRING),))
    assert new.decode(old.encode((1, "a"))) == ("a",)
    old, new = evolved((Field("name", t.STRING), Field("id", t.INTEGER)))
    assert new.decode(old.encode((1, "a"))) == ("a", 1)


@pytest.mark.parametrize(("wider", "value"), [(t.LONG, 7), (t.DOUBLE, 7.0), (t.FLOAT, 7.0)])
def test_a_number_may_become_wider(wider: t.DataType, value: float) -> None:
    old, new = evolved((Field("id", wider), Field("name", t.STRING)))
    result = new.decode(old.encode((7, "a")))
    assert result == (value, "a") and type(result[0]) is type(value)


def test_structs_arrays_and_maps_change_inside() -> None:
    inner = t.Struct((Field("x", t.INTEGER),))
    wider = t.Struct((Field("y", t.STRING), Field("x", t.LONG)))
    old, new = evolved(
        (Field("a", t.Array(wider)), Field("m", t.Map(t.STRING, wider))),
        (Field("a", t.Array(inner)), Field("m", t.Map(t.STRING, inner))),
    )
    assert new.decode(old.encode(([(1,), None], {"k": (2,)}))) == ([(None, 1), None], {"k": (None, 2)})


def test_a_value_survives_several_changes() -> None:
    variables = Variables()
    first = ValueCodec(variables.declare("v", VariableKind.VALUE, V1), record_maker)
    written = first.encode((1, "a"))
    for schema in ((Field("id", t.LONG), Field("name", t.STRING)), (Field("id", t.DOUBLE), Field("more", t.STRING))):
        variables = Variables(variables.all)
        newest = ValueCodec(variables.declare("v", VariableKind.VALUE, schema), record_maker)
    assert newest.decode(written) == (1.0, None)


@pytest.mark.parametrize("narrower", [t.SHORT, t.STRING, t.BOOLEAN, t.Array(t.INTEGER)])
def test_another_type_is_refused_with_field_and_variable(narrower: t.DataType) -> None:
    with pytest.raises(InvalidQuery, match="field 'id' of state variable 'v' was int"):
        evolved((Field("id", narrower), Field("name", t.STRING)))


def test_a_variable_never_changes_its_kind_or_the_keys_of_its_map() -> None:
    variables = Variables()
    variables.declare("m", VariableKind.MAP, V1, (Field("k", t.STRING),))
    with pytest.raises(InvalidQuery, match="is a map in the checkpoint and a list in the code"):
        Variables(variables.all).declare("m", VariableKind.LIST, V1)
    with pytest.raises(InvalidQuery, match="keys of state variable 'm' were struct<k:string>"):
        Variables(variables.all).declare("m", VariableKind.MAP, V1, (Field("k", t.LONG),))


def test_a_variable_that_the_code_no_longer_has_stays_known() -> None:
    variables = Variables()
    variables.declare("old", VariableKind.VALUE, V1)
    later = Variables(variables.all)
    later.declare("new", VariableKind.VALUE, V1)
    assert [one.name for one in later.all] == ["new", "old"]
    assert later.forget("old") and not later.forget("old")
