"""A document of any number of its format is read as today's."""

from __future__ import annotations

from typing import ClassVar

import msgspec
import pytest

from tidegate.checkpoint import manifest
from tidegate.model import formats
from tidegate.model.errors import CorruptSnapshot, InvalidQuery
from tidegate.model.formats import Upgrade, Upgrades
from tidegate.operators.values import decoded


class Place1(msgspec.Struct, frozen=True, kw_only=True, tag_field="format", tag="place/1"):
    seconds: int


class Place2(msgspec.Struct, frozen=True, kw_only=True, tag_field="format", tag="place/2"):
    millis: int


def upgrade_1_to_2(old: Place1) -> Place2:
    return Place2(millis=old.seconds * 1_000)


def upgrade_2_to_3(old: Place2) -> Place:
    return Place(at_us=old.millis * 1_000)


class Place(msgspec.Struct, frozen=True, kw_only=True, tag_field="format", tag="place/3"):
    UPGRADES: ClassVar[Upgrades] = (Upgrade(Place1, upgrade_1_to_2), Upgrade(Place2, upgrade_2_to_3))

    at_us: int


class Other(msgspec.Struct, frozen=True, kw_only=True, tag_field="format", tag="other/1"):
    word: str


OF_EVERY_NUMBER = [Place1(seconds=7), Place2(millis=7_000), Place(at_us=7_000_000)]


@pytest.mark.parametrize("stored", OF_EVERY_NUMBER, ids=lambda one: str(one.__struct_config__.tag))
def test_a_document_of_every_number_is_read_as_todays(stored: msgspec.Struct) -> None:
    body = msgspec.msgpack.encode(stored)
    assert formats.decode(body, Place) == Place(at_us=7_000_000)
    assert formats.decode(body, Place | Other) == Place(at_us=7_000_000)
    assert decoded(body, Place, "the place") == Place(at_us=7_000_000)
    assert manifest.decode(Place, "key", manifest.encode(stored)) == Place(at_us=7_000_000)
    assert formats.decode(msgspec.json.encode(stored), Place, decoder=msgspec.json.decode) == Place(at_us=7_000_000)


def test_a_kind_without_older_numbers_and_one_of_several_are_read_as_they_are() -> None:
    other = Other(word="here")
    for kind in (Other, Place | Other):
        assert formats.decode(msgspec.msgpack.encode(other), kind) == other


def test_a_number_of_the_future_is_refused_by_name_and_a_number_that_never_was_is_damage() -> None:
    future = msgspec.defstruct("Future", [("x", int)], tag_field="format", tag="place/4")
    with pytest.raises(InvalidQuery, match="its format is place/4, and this version reads place/3"):
        manifest.decode(Place, "key", manifest.encode(future(x=1)))
    never = msgspec.defstruct("Never", [("x", int)], tag_field="format", tag="place/0")
    with pytest.raises(CorruptSnapshot):
        manifest.decode(Place, "key", manifest.encode(never(x=1)))
    with pytest.raises(CorruptSnapshot, match="the place cannot be read"):
        decoded(msgspec.msgpack.encode(future(x=1)), Place, "the place")


def test_a_field_that_a_later_version_has_added_is_passed_over() -> None:
    later = msgspec.defstruct("Later", [("at_us", int), ("more", str)], tag_field="format", tag="place/3")
    assert formats.decode(msgspec.msgpack.encode(later(at_us=5, more="?")), Place) == Place(at_us=5)
