from __future__ import annotations

import msgspec
import pytest

from tidegate.api.options import NOT_OPTIONS, OPTIONS, describe_options, to_text
from tidegate.api.ranges import Duration, Number, WholeNumber
from tidegate.api.settings import sort_options, to_config
from tidegate.model.config import QueryConfig
from tidegate.model.errors import InvalidQuery


def test_options_are_sorted_by_whom_they_concern():
    options = sort_options(
        {"checkpointLocation": "/ck", "PARALLELISM": "4", "path": "/out", "atEnd": "drain", "header": True}
    )
    assert options.checkpoint_location == "/ck"
    assert options.config == {"parallelism": 4, "drain": True}
    assert options.sink == {"path": "/out", "header": "true"}


def test_names_of_operators_go_neither_to_the_settings_nor_to_the_sink():
    options = sort_options({"uid.aggregate-K": "Totals", "tidegate.uid.source": "bids"})
    assert options.uids == {"aggregate-k": "Totals", "source": "bids"}
    assert (options.config, options.sink) == ({}, {})


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


def test_every_setting_has_an_option_or_a_reason_to_have_none():
    settings = {field.name for field in msgspec.structs.fields(QueryConfig)}
    fields = [option.field for option in OPTIONS if option.field]
    assert len(fields) == len(set(fields))
    assert set(fields) | NOT_OPTIONS.keys() == settings and not set(fields) & NOT_OPTIONS.keys()


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_option_has_a_range_and_refuses_what_is_outside_of_it(option):
    match option.range:
        case WholeNumber(least, most) | Number(least, most):
            inside, outside = (least, most), (least - 1, most + 1, "nan", "")
        case Duration(least_ms, most_ms, may_be_off):
            inside = (f"{least_ms} ms", f"{most_ms} ms")
            outside = (f"{most_ms + 1} ms", "-1 s", "0 s", "soon", "", 5)
            assert sort_options({option.name: "OFF"}).config == {option.field: 0} if may_be_off else True
        case _:
            inside, outside = (), ("", " ")
    given = {"startFrom": "/s"} if option.name == "startFromMode" else {}
    for value in inside:
        sort_options({option.name: value, **given})
    for value in outside:
        with pytest.raises(InvalidQuery, match=option.name):
            sort_options({option.name: value, **given})


def test_the_default_of_every_option_lies_in_its_range():
    for option in OPTIONS:
        default = getattr(QueryConfig(), option.field) if option.field else None
        match option.range:
            case WholeNumber(least, most) | Number(least, most):
                assert least <= default <= most or option.name == "parallelism", option.name
            case Duration(least_ms, most_ms, may_be_off):
                assert least_ms <= default <= most_ms or (default == 0 and (may_be_off or option.default)), option.name
            case _:
                pass


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"heartbeatInterval": "10 s", "silenceTimeout": "5 s"}, "heartbeatInterval.*silenceTimeout"),
        ({"restartDelayMin": "2 minutes"}, "restartDelayMin.*restartDelayMax"),
        ({"alignedTimeout": "10 minutes"}, "alignedTimeout.*checkpointTimeout"),
    ],
)
def test_options_that_contradict_each_other_are_refused(given, names):
    with pytest.raises(InvalidQuery, match=names):
        to_config(sort_options(given).config)


def test_a_fixed_pause_between_restarts_may_be_longer_than_the_longest_growing_one():
    given = {"restartStrategy": "fixed", "restartDelayMin": "2 minutes"}
    assert to_config(sort_options(given).config).restart_delay_min_ms == 120_000


def test_where_a_query_starts_from_is_an_option_of_the_query():
    options = sort_options({"startfrom": "/s", "startFromMode": "Claim"})
    assert (options.start_from, options.claim_savepoint) == ("/s", True)
    assert sort_options({"startFrom": "/s"}).claim_savepoint is False
    with pytest.raises(InvalidQuery, match="startFrom"):
        sort_options({"startFromMode": "claim"})


def test_values_become_text_as_spark_writes_it():
    assert [to_text(value) for value in (True, False, 3, "x")] == ["true", "false", "3", "x"]
