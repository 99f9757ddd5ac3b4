"""The Iceberg table itself: found or made, and held against the query's result before anything runs."""

from __future__ import annotations

import logging
from itertools import count

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    UnauthorizedError,
)
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform, UnknownTransform
from pyiceberg.types import DoubleType, FloatType, IcebergType

from tidegate.connectors.iceberg.config import IcebergConfig
from tidegate.connectors.iceberg.types import fits, iceberg_schema, iceberg_type
from tidegate.connectors.lake.schemas import TableColumn, refuse_mismatch
from tidegate.connectors.lake.storage import TableStorage, failed, in_short
from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery, TidegateError, Unavailable

log = logging.getLogger("tidegate.connectors")

NEW_TABLE = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}
"""Properties of a table that is made here: every commit writes a metadata file, and nobody reads the thousandth before it."""


class IcebergTables:
    """One table in its catalogue, as often as one likes: each ``load`` is the table as it is now."""

    def __init__(self, config: IcebergConfig) -> None:
        self.config = config
        self._catalog = _catalog(config)

    def load(self) -> Table:
        """Unavailable if it is not there any more."""
        table = self.find()
        if table is None:
            raise Unavailable(
                f"the Iceberg catalogue {self.config.catalog} has no table {self.config.table}",
                hint="it was there when the query started: bring it back, or start the query again to have it made",
            )
        return table

    def find(self) -> Table | None:
        try:
            return self._catalog.load_table(self.config.table)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        except Exception as error:
            raise explained(error, "load the Iceberg table", self.config.table) from error

    def ensure(self, result: t.Schema) -> Table:
        """The table, made if there is none, with columns added if the query may do that. InvalidQuery if the result does not fit."""
        table = self.find() or self._made(result)
        columns = [
            TableColumn(
                field.name,
                str(field.field_type),
                lambda given, has=field.field_type: fits(given, has),
                required=field.required,
            )
            for field in table.schema().fields
        ]
        added = refuse_mismatch(self.config.table, result, columns, merge=self.config.merge_schema)
        if added:
            table = self._with_columns(table, added)
        self._check_partitioning(table, result)
        return table

    def _made(self, result: t.Schema) -> Table:
        schema = iceberg_schema(result)
        for name in self.config.partition_by:
            _refuse_rounding(name, schema.find_type(name))
        keys = [
            PartitionField(schema.find_field(name).field_id, PARTITION_FIELD_ID_START + n, IdentityTransform(), name)
            for n, name in enumerate(self.config.partition_by)
        ]
        properties = {**NEW_TABLE, **self.config.table_properties}
        try:
            self._make_namespace()
            return self._catalog.create_table(
                self.config.table, schema, partition_spec=PartitionSpec(*keys), properties=properties
            )
        except TableAlreadyExistsError:
            return self.load()  # Somebody else was quicker; whether it fits is looked at next.
        except ValueError as error:
            raise InvalidQuery(
                f"cannot make the Iceberg table {self.config.table}: {in_short(error)}",
                hint="the words are the catalogue's own",
            ) from error
        except Exception as error:
            raise explained(error, "make the Iceberg table", self.config.table) from error

    def _make_namespace(self) -> None:
        namespace = self.config.table.rpartition(".")[0]
        try:
            self._catalog.create_namespace(namespace)
        except NamespaceAlreadyExistsError:
            return

    def _with_columns(self, table: Table, added: t.Schema) -> Table:
        names = ", ".join(field.name for field in added)
        try:
            with table.update_schema() as change:
                for field in added:
                    change.add_column(field.name, iceberg_type(field.type, count(1)))
        except (CommitFailedException, ValueError) as error:
            raise Unavailable(
                f"cannot add {names} to the Iceberg table {self.config.table}: {in_short(error)}",
                hint="somebody else changed it at the same time: start the query again",
            ) from error
        except Exception as error:
            raise explained(error, f"add {names} to the Iceberg table", self.config.table) from error
        log.info("added %s to the Iceberg table %s", names, self.config.table)
        return self.load()

    def _check_partitioning(self, table: Table, result: t.Schema) -> None:
        schema, spec = table.schema(), table.spec()
        given = {field.name for field in result}
        names: list[str] = []
        for field in spec.fields:
            source = schema.find_column_name(field.source_id) or ""
            if isinstance(field.transform, UnknownTransform):
                raise InvalidQuery(
                    f"the table {self.config.table} is partitioned by {field.transform}({source}), which nobody here can compute",
                    hint="a newer pyiceberg may know it",
                )
            if source not in given:
                raise InvalidQuery(
                    f"the table {self.config.table} is partitioned by {field.transform}({source}), which is no column of the result",
                    hint="add the column to the query; fields inside of structs cannot partition a table that is written here",
                )
            _refuse_rounding(source, schema.find_type(field.source_id))
            if source in names:
                raise InvalidQuery(
                    f"the table {self.config.table} is partitioned by {source} twice, which pyiceberg cannot write",
                    hint="keep the finer one: a reader that knows hour(ts) needs no day(ts)",
                )
            names.append(source)
        if self.config.partition_by and list(self.config.partition_by) != names:
            shown = ", ".join(f"{field.transform}({name})" for field, name in zip(spec.fields, names, strict=True))
            raise InvalidQuery(
                f"partitionBy names {', '.join(self.config.partition_by)}, but the table {self.config.table} is partitioned "
                f"by {shown or 'nothing'}",
                hint="leave partitionBy out, or name the columns of the table in its order",
            )


def storage_of(table: Table) -> TableStorage:
    """Files by location, with the credentials of the table (a REST catalogue may hand them out per table)."""
    io = PyArrowFileIO(properties=table.io.properties)

    def resolve(location: str) -> tuple[object, str]:
        scheme, host, path = io.parse_location(location, io.properties)
        return io.fs_by_scheme(scheme, host), path

    return TableStorage(resolve)  # pyright: ignore[reportArgumentType]


def explained(error: Exception, doing: str, table: str) -> TidegateError:
    """Catalogues raise all kinds of things. What credentials do not allow is for a person; the rest may pass."""
    if isinstance(error, UnauthorizedError | ForbiddenError):
        return InvalidQuery(
            f"cannot {doing} {table}: the catalogue refuses ({in_short(error)})",
            hint="check the options catalog.credential, catalog.token and what they allow",
        )
    return failed(error, doing, table)


def _refuse_rounding(column: str, kind: IcebergType) -> None:
    if isinstance(kind, FloatType | DoubleType):
        raise InvalidQuery(
            f"an Iceberg table partitioned by {column}, a {kind}, cannot be written",
            hint="pyiceberg rounds such values when it reads manifests, and readers would miss rows: use another column",
        )


def _catalog(config: IcebergConfig) -> Catalog:
    try:
        return load_catalog(config.catalog, **config.catalog_properties)
    except Exception as error:
        raise InvalidQuery(
            f"cannot open the Iceberg catalogue {config.catalog!r}: {in_short(error)}",
            hint='set .option("catalog.type", …) and .option("catalog.uri", …) as pyiceberg takes them',
        ) from error
