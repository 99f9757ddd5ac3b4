"""``tidegate.writeStream(df)``: PySpark's ``DataStreamWriter``, started on Tidegate instead of micro-batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from tidegate.api.foreach_batch import FORMAT as FOREACH_BATCH
from tidegate.api.foreach_batch import check_function
from tidegate.api.launch import check, launch
from tidegate.api.query import StreamingQuery
from tidegate.api.requests import QueryRequest
from tidegate.api.tables import named_table
from tidegate.api.triggers import Trigger, parse_trigger
from tidegate.connectors.foreach.sink import pack
from tidegate.model.errors import InvalidQuery


class DataStreamWriter:
    """Collects what the query should be; ``start()`` checks all of it at once, before anything runs."""

    def __init__(self, df: DataFrame) -> None:
        self._df = df
        self._format: str | None = None
        self._options: dict[str, object] = {}
        self._mode = "append"
        self._name: str | None = None
        self._partition_by: tuple[str, ...] = ()
        self._trigger: dict[str, Any] = {}
        self._foreach: Any = None
        self._foreach_batch: Any = None

    def format(self, source: str) -> DataStreamWriter:
        """``parquet json csv text delta iceberg kafka postgres memory console noop``, or the name of a data source of yours that is
        registered with the session; Spark's default, ``parquet``, if never called."""
        self._format = source
        return self

    def option(self, key: str, value: object) -> DataStreamWriter:
        """An option of the query (docs/reference/options.md lists them) or, by any other name, of the sink.

        Names are matched without regard to case; one that looks like a misspelt option is refused at ``start()``.
        """
        # Names are case-insensitive, and the last one given counts.
        self._options = {name: old for name, old in self._options.items() if name.lower() != key.lower()}
        self._options[key] = value
        return self

    def options(self, **options: object) -> DataStreamWriter:
        """Several at once."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def outputMode(self, outputMode: str) -> DataStreamWriter:
        """``append``: each row once, when it is final. ``update``: changed rows of an aggregate, at once. ``complete``: the whole result
        of an aggregation, once per checkpoint."""
        self._mode = outputMode
        return self

    def queryName(self, queryName: str) -> DataStreamWriter:
        """Shown in progress and log; for ``memory`` also the name of the table."""
        self._name = queryName
        return self

    def partitionBy(self, *cols: str | list[str]) -> DataStreamWriter:
        """Directories ``column=value`` in the output of file sinks."""
        names = cols[0] if len(cols) == 1 and isinstance(cols[0], list | tuple) else cols
        self._partition_by = tuple(str(name) for name in names)
        return self

    def foreach(self, f: Callable[..., Any] | object) -> DataStreamWriter:
        """``f(row)`` for every row, or an object with ``open``, ``process`` and ``close``. At least once."""
        self._foreach = f
        return self

    def foreachBatch(self, func: Callable[..., Any]) -> DataStreamWriter:
        """``func(df, batch_id)`` on the driver after each checkpoint that brought rows; ids are 0, 1, 2 … over all restarts.

        At least once per id, with the same rows for the same id. ``tidegate.batch()`` inside ``func`` gives the id together with a name
        that is new after every ``startFrom``. ``df`` is good inside ``func`` only. One task slot stays free for it.
        """
        self._foreach_batch = func
        return self

    def trigger(
        self,
        *,
        checkpoint: str | None = None,
        availableNow: bool | None = None,
        processingTime: str | None = None,
        once: bool | None = None,
        continuous: str | None = None,
        realTime: object = None,
    ) -> DataStreamWriter:
        """``checkpoint``: how often checkpoints are taken and results of transactional sinks become visible.

        ``availableNow``: read what is there, then end. Several calls and arguments may be combined.
        """
        given = {
            "checkpoint": checkpoint,
            "available_now": availableNow,
            "processing_time": processingTime,
            "once": once,
            "continuous": continuous,
            "real_time": realTime,
        }
        self._trigger.update({name: value for name, value in given.items() if value is not None})
        return self

    def start(
        self,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: str | list[str] | None = None,
        queryName: str | None = None,
        **options: object,
    ) -> StreamingQuery:
        """Starts the query and returns its handle. Raises InvalidQuery, before anything runs, for what is not supported."""
        self._collect(format, outputMode, partitionBy, queryName, options)
        if path is not None:
            self.option("path", path)
        return launch(self.request())

    def check(self, path: str | None = None, **options: object) -> None:
        """Raises what ``start()`` would refuse, and starts nothing: an unsupported expression, a wrong option, or a query that has changed
        so that it cannot go on from the checkpoints at its ``checkpointLocation``, or from what ``startFrom`` names. The sink's target is
        not opened."""
        self.options(**options)
        if path is not None:
            self.option("path", path)
        check(self.request())

    def toTable(
        self,
        tableName: str,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: str | list[str] | None = None,
        queryName: str | None = None,
        **options: object,
    ) -> StreamingQuery:
        """Starts the query with a table as its sink, made if there is none.

        ``parquet json csv text``: a table of Spark's catalogue. ``delta``: ``toTable("delta.`/path`")``. ``iceberg``: a table of the
        catalogue that the options ``catalog.*`` name.
        """
        if self._foreach is not None or self._foreach_batch is not None:
            raise InvalidQuery(
                f"toTable({tableName!r}) after foreach or foreachBatch: rows go to one of them", hint="call start()"
            )
        self._collect(format, outputMode, partitionBy, queryName, options)
        table = named_table(self._df, tableName, (self._format or "parquet").lower(), self._partition_by)
        self._partition_by = table.partition_by
        return self.start(table.path)

    def request(self) -> QueryRequest:
        """What the query should be, as collected so far."""
        payload = b""
        if self._foreach is not None:
            self._format = "foreach"
            payload = pack(self._foreach)
        function = None
        if self._foreach_batch is not None:
            self._format = FOREACH_BATCH
            function = check_function(self._foreach_batch)
        return QueryRequest(
            df=self._df,
            format=(self._format or "parquet").lower(),
            options=dict(self._options),
            mode=self._mode,
            name=self._name,
            partition_by=self._partition_by,
            trigger=self._parse_trigger(),
            payload=payload,
            function=function,
        )

    def _collect(
        self,
        format: str | None,
        outputMode: str | None,
        partitionBy: str | list[str] | None,
        queryName: str | None,
        options: dict[str, object],
    ) -> None:
        """What the last call brings along."""
        self.options(**options)
        if format is not None:
            self.format(format)
        if outputMode is not None:
            self.outputMode(outputMode)
        if partitionBy is not None:
            self.partitionBy(*([partitionBy] if isinstance(partitionBy, str) else partitionBy))
        if queryName is not None:
            self.queryName(queryName)

    def _parse_trigger(self) -> Trigger:
        names = ("checkpoint", "available_now", "processing_time", "once", "continuous", "real_time")
        return parse_trigger(**{name: self._trigger.get(name) for name in names})


def writeStream(df: DataFrame) -> DataStreamWriter:
    """What ``df.writeStream`` is in PySpark, for a query that runs continuously and exactly once."""
    return DataStreamWriter(df)
