from __future__ import annotations

import msgspec
import pytest

from tidegate.api.options import OPTIONS, describe_options, sort_options, to_config, to_text
from tidegate.model.config import QueryConfig
from tidegate.model.errors import InvalidQuery


def test_options_are_sorted_by_whom_they_concern():
    options = sort_options(
        {"checkpointLocation": "/ck", "PARALLELISM": "4", "path": "/out", "atEnd": "drain", "header": True}
    )
    assert options.checkpoint_location == "/ck"
    assert options.config == {"parallelism": 4, "drain": True}
    assert options.sink == {"path": "/out", "header": "true"}


def test_the_prefix_may_be_written_out():
    assert sort_options({"tidegate.checkpointTimeout": "2 minutes"}).config == {"checkpoint_timeout_ms": 120_000}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("paralelism", "parallelism"),
        ("checkpointsLocation", "checkpointLocation"),
        ("tidegate.idleTimout", "idleTimeout"),
    ],
)
def test_a_misspelt_option_is_refused_and_not_run_with_the_default(name, meant):
    with pytest.raises(InvalidQuery, match=name.replace(".", r"\.")) as refused:
        sort_options({name: "1"})
    assert meant in refused.value.hint


def test_an_unknown_option_under_our_prefix_is_refused():
    with pytest.raises(InvalidQuery):
        sort_options({"tidegate.colour": "blue"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("parallelism", "0"),
        ("parallelism", "many"),
        ("atEnd", "explode"),
        ("checkpointTimeout", "10"),
        ("restartDelayFactor", "0.5"),
        ("checkpointLocation", " "),
        ("progress", "loud"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(name, value):
    with pytest.raises(InvalidQuery, match=name):
        sort_options({name: value})


def test_parallelism_beyond_the_key_groups_is_refused():
    with pytest.raises(InvalidQuery, match="maxParallelism"):
        to_config({"parallelism": 200})


def test_every_option_lands_in_a_setting_that_exists_and_is_documented():
    settings = {field.name for field in msgspec.structs.fields(QueryConfig)}
    assert {option.field for option in OPTIONS if option.field} <= settings
    table = describe_options()
    assert all(f"`{option.name}`" in table and option.meaning for option in OPTIONS)


def test_values_become_text_as_spark_writes_it():
    assert [to_text(value) for value in (True, False, 3, "x")] == ["true", "false", "3", "x"]
