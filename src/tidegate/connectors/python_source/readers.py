"""The stream reader of a user's data source, whichever of the two kinds it offers, behind one interface."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.errors import PySparkNotImplementedError
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition, SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from tidegate.connectors.python_source.splits import Offset
from tidegate.model.errors import DataError, InvalidQuery
from tidegate.operators.user_functions import failure


def stream_reader(datasource: DataSource, schema: StructType) -> DataSourceStreamReader:
    """The partitioned reader if the source has one, else the simple one, as Spark chooses."""
    name = type(datasource).name()
    try:
        try:
            return datasource.streamReader(schema)
        except PySparkNotImplementedError:
            return SimpleRanges(datasource.simpleStreamReader(schema), name)
    except PySparkNotImplementedError as error:
        raise InvalidQuery(
            f"the data source {name} cannot be read as a stream",
            hint="implement streamReader() or simpleStreamReader(), or use spark.read",
        ) from error
    except InvalidQuery:
        raise
    except Exception as error:
        raise failure(error, f"data source {name}", "in streamReader()") from error


class SimpleRanges(DataSourceStreamReader):
    """A SimpleDataSourceStreamReader as a partitioned one: ``read`` on the driver says how far a range goes, and the slot
    reads it with ``readBetweenOffsets``, the method that Spark uses after a failure. So a restart needs no other road."""

    def __init__(self, reader: SimpleDataSourceStreamReader, name: str) -> None:
        if type(reader).readBetweenOffsets is SimpleDataSourceStreamReader.readBetweenOffsets:
            raise InvalidQuery(
                f"the simple stream reader of data source {name} has no readBetweenOffsets()",
                hint="implement it: it gives the same rows again after a failure, without it there is no exactly-once",
            )
        self._reader = reader
        self._name = name

    def initialOffset(self) -> Offset:
        return self._reader.initialOffset()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        assert isinstance(limit, ReadAllAvailable)  # The default limit, which a simple reader cannot change.
        rows, end = self._reader.read(start)
        if end == start and next(iter(rows), None) is not None:
            raise DataError(
                f"read({start}) of data source {self._name} gave rows but did not move the offset",
                hint="return the offset after the last row as second value of read()",
            )
        return end

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        return [InputPartition((start, end))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        start, end = partition.value
        return self._reader.readBetweenOffsets(start, end)

    def commit(self, end: Offset) -> None:
        self._reader.commit(end)
