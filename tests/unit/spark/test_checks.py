from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark import SparkConf

from tidegate.model.errors import InvalidQuery
from tidegate.spark.checks import check_session, refuse_connect


def session(**settings: str):
    conf = SparkConf(loadDefaults=False)
    conf._conf = {name.replace("__", "."): value for name, value in settings.items()}
    return SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: conf))


def test_an_ordinary_session_passes():
    check_session(session(spark__app__name="x"))


@pytest.mark.parametrize("setting", ["spark__dynamicAllocation__enabled", "spark__speculation"])
def test_settings_under_which_slots_cannot_live_are_refused_by_name(setting):
    """T64: speculation would start a second copy of a running slot."""
    name = setting.replace("__", ".")
    with pytest.raises(InvalidQuery, match=name) as refused:
        check_session(session(**{setting: "true"}))
    assert f"{name}=false" in refused.value.hint


def test_a_dataframe_of_spark_connect_is_refused_with_the_way_out():
    remote = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
    with pytest.raises(InvalidQuery, match="Spark Connect") as refused:
        refuse_connect(remote)
    assert "classic" in refused.value.hint


def test_what_is_no_dataframe_is_refused():
    with pytest.raises(InvalidQuery, match="list"):
        refuse_connect([1, 2])
