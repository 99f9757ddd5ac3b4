"""The session that ``local_session`` starts."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidegate.spark.session import spark_log_path

pytestmark = pytest.mark.spark


def test_a_query_that_fails_in_spark_is_an_exception_and_a_line_in_the_log_file(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
        spark.range(3).selectExpr("1 / (id - id)").collect()
    out, err = capfd.readouterr()
    assert "SQLQueryContextLogger" not in out + err
    assert "SQLQueryContextLogger" in spark_log_path().read_text()
