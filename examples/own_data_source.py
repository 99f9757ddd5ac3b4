"""A source of your own: PySpark's Python Data Source API, unchanged. Run it: .venv/bin/python examples/own_data_source.py

Offsets are yours. Tidegate asks for partitions between two offsets, remembers how many rows of each it has emitted, and after a
failure plans the same partitions again and skips those rows: the same offsets must give the same partitions and rows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

import tidegate

LAST = 40


class Squares(DataSource):
    """The squares of 0 … 39, ten per offset step, in two partitions."""

    @classmethod
    def name(cls) -> str:
        return "squares"

    def schema(self) -> str:
        return "n long, square long"

    def streamReader(self, schema) -> SquaresReader:
        return SquaresReader()


class Numbers(InputPartition):
    def __init__(self, numbers: range) -> None:
        super().__init__(None)
        self.numbers = numbers


class SquaresReader(DataSourceStreamReader):
    def initialOffset(self) -> dict:
        return {"next": 0}

    def latestOffset(self) -> dict:
        return {"next": LAST}

    def partitions(self, start: dict, end: dict) -> Sequence[InputPartition]:
        return [Numbers(range(start["next"] + part, end["next"], 2)) for part in range(2)]

    def read(self, partition: Numbers) -> Iterator[tuple[int, int]]:
        for number in partition.numbers:
            yield number, number * number


if __name__ == "__main__":
    spark = tidegate.local_session("own source")
    spark.dataSource.register(Squares)
    squares = spark.readStream.format("squares").load().where("square % 2 = 0")
    query = (
        tidegate.writeStream(squares)
        .format("memory")
        .queryName("even_squares")
        .option("checkpointLocation", tempfile.mkdtemp(prefix="tidegate-squares-"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.sql("SELECT count(*) AS rows, max(square) AS largest FROM even_squares").show()
    assert spark.table("even_squares").count() == LAST // 2
