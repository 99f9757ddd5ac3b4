"""How the options of a connector are declared, read, refused and shown."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from tidegate.model.errors import InvalidQuery
from tidegate.model.types import STRING, Field
from tidegate.ports.context import CommitterContext, WriterContext
from tidegate.ports.kinds import Character, Choice, Duration, Flag, SecretText, Size, Text, WholeNumber
from tidegate.ports.options import Refused, anything, describe, option, refused, refused_unless
from tidegate.ports.secret import Secret
from tidegate.ports.sink import SinkCommitter, SinkWriter
from tidegate.ports.spec import ConnectorRequest, Place, SinkSpec, place_of_path

SCHEMA = (Field("name", STRING), Field("day", STRING))


@dataclass(frozen=True, kw_only=True)
class LetterSink(SinkSpec):
    path: str = option("path", Text(harmless=True), doc="where letters go", needed="start(path) names it")
    colour: str = option("colour", Choice("red", "blue", azure="blue"), "red", doc="of the ink")
    pages: int = option("pagesMax", WholeNumber(1), 10, doc="pages of a letter")
    fold: bool = option("fold", Flag(), False, doc="whether it is folded")
    margin: str = option("margin", Character(), " ", doc="before each line", aliases=("indent",))
    weight: int = option("weight", Size(), 0, doc="most bytes")
    wait_ms: int | None = option("wait", Duration(), None, doc="how long it lies")
    seal: Secret = option("seal", SecretText(), Secret(""), doc="who sent it")
    note: str = option("note", Text(), "", doc="anything")
    stamps: dict[str, str] = anything("stamp.", doc="handed to the post office as they are")

    REFUSED: ClassVar[Mapping[str, Refused]] = {
        **refused("airmail", hint="send it by ship"),
        **refused_unless({"language": "en"}, hint="write English"),
    }
    IGNORED: ClassVar[frozenset[str]] = frozenset({"hurry"})

    @property
    def place(self) -> Place:
        return place_of_path(self.path)

    def writer(self, context: WriterContext) -> SinkWriter:
        raise NotImplementedError

    def committer(self, context: CommitterContext) -> SinkCommitter:
        raise NotImplementedError


def parse(partition_by: tuple[str, ...] = (), **options: Any) -> LetterSink:
    given = {"path": "/letters", **{name.replace("_", "."): str(value) for name, value in options.items()}}
    return LetterSink.parse(ConnectorRequest(format="letter", options=given, schema=SCHEMA, partition_by=partition_by))


def refusal(**options: Any) -> str:
    with pytest.raises(InvalidQuery) as caught:
        parse(**options)
    return f"{caught.value.message} / {caught.value.hint}"


def test_what_is_not_said_has_its_default() -> None:
    letter = parse()
    assert (letter.colour, letter.pages, letter.fold, letter.margin, letter.wait_ms) == ("red", 10, False, " ", None)
    assert letter.stamps == {}


def test_names_are_read_in_any_case_and_values_are_understood() -> None:
    letter = parse(COLOUR="Azure", pagesmax="3", fold="TRUE", indent="\\t", weight="2 kb", wait="3 minutes")
    assert (letter.colour, letter.pages, letter.fold, letter.margin) == ("blue", 3, True, "\t")
    assert (letter.weight, letter.wait_ms) == (2_048, 180_000)


def test_options_under_a_prefix_keep_their_case() -> None:
    assert parse(stamp_Value="5").stamps == {"Value": "5"}


def test_what_spark_passes_to_every_sink_is_no_option() -> None:
    parse(checkpointLocation="/c", queryName="q")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"path": ""}, "the letter sink needs the option 'path' / start(path) names it"),
        ({"colour": "green"}, "option 'colour' of the letter sink is 'green' / it must be red or blue"),
        ({"pagesMax": 0}, "option 'pagesMax' of the letter sink is '0' / it must be at least 1"),
        ({"pagesMax": "x"}, "option 'pagesMax' of the letter sink is 'x' / it must be a whole number"),
        ({"fold": "yes"}, "option 'fold' of the letter sink is 'yes' / it must be true or false"),
        ({"indent": "ab"}, "option 'indent' of the letter sink is 'ab' / it must be one ASCII character"),
        ({"weight": "x"}, "option 'weight' of the letter sink is 'x' / it must be a size such as 128m or 1g (0: none)"),
        (
            {"wait": "5"},
            "option 'wait' of the letter sink is '5' / it must be a duration such as 30s, 15 minutes or 7d",
        ),
        ({"airmail": "true"}, "option 'airmail' of the letter sink is not supported / send it by ship"),
        (
            {"language": "fr"},
            "option 'language' of the letter sink is not supported / write English (language=en is what is built)",
        ),
        ({"collor": "red"}, "the letter sink has no option 'collor' / did you mean 'colour'?"),
        ({"pageMax": "1"}, "the letter sink has no option 'pageMax' / did you mean 'pagesMax'?"),
    ],
)
def test_what_is_wrong_is_refused_by_name(options: dict[str, Any], told: str) -> None:
    assert refusal(**options) == told


def test_an_option_that_nobody_knows_is_refused_with_all_that_there_are() -> None:
    assert refusal(zzz="1").startswith("the letter sink has no option 'zzz' / its options are airmail, colour, fold,")


def test_an_option_of_spark_at_the_value_that_is_built_is_never_refused() -> None:
    parse(language="EN", hurry="very")


def test_partitions_are_columns_that_are_there() -> None:
    assert parse(("day",)).partition_by == ("day",)
    with pytest.raises(InvalidQuery, match="partitionBy names year, which the result does not have") as caught:
        parse(("day", "year"))
    assert caught.value.hint == "its columns are name, day"


def test_only_what_is_declared_to_be_harmless_is_shown() -> None:
    """An allow-list: a new option hides its value until somebody has thought about it."""
    letter = parse(path="s3://me:canary@there/x", seal="canary", note="canary", stamp_token="canary", pagesMax=3)
    assert dict(letter.shown) == {
        "path": "s3://me:*****@there/x",
        "seal": "*****",
        "note": "*****",
        "stamp.token": "*****",
        "pagesMax": "3",
    }
    assert "canary" not in repr(replace(letter, path="", note=""))
    assert "canary" not in f"{letter.seal} {letter.seal!r} {letter.seal:>10}"
    assert pickle.loads(pickle.dumps(letter)) == letter
    assert letter.seal.reveal() == "canary"


def test_the_page_of_options_is_made_of_the_declarations() -> None:
    page = describe(LetterSink)
    assert "| `colour` | `red`, `blue` | `red` | of the ink |" in page
    assert "| `margin`, `indent` | one ASCII character | ` ` | before each line |" in page
    assert "| `path` | text | – | where letters go |" in page
    assert "| `stamp.…` | | | handed to the post office as they are |" in page


def test_a_place_is_the_same_however_it_is_written() -> None:
    written_as = ("/data/bids", "/data/bids/", "file:/data/bids", "file:///data/bids")
    assert {place_of_path(path) for path in written_as} == {"/data/bids"}
    assert place_of_path("s3://bucket/bids") == "s3://bucket/bids"
