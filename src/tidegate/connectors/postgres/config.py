"""The options of the PostgreSQL sink, checked without touching the server."""

from __future__ import annotations

import re
from dataclasses import dataclass

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tidegate.connectors.legacy import Sink
from tidegate.connectors.options import Options
from tidegate.connectors.postgres.column_types import created_type
from tidegate.connectors.postgres.names import SinkNames, Table
from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.model.output_mode import OutputMode
from tidegate.model.types import Schema, simple_string

PREPARED, STAGED = "prepared", "staged"
LEDGER = "tidegate_ledger"
_NAME = r'"(?:[^"]|"")+"|[A-Za-z_][A-Za-z0-9_$]*'
_TABLE = re.compile(rf"(?:({_NAME})\.)?({_NAME})")


@dataclass(frozen=True, slots=True)
class PostgresConfig:
    """The validated options of one PostgreSQL sink."""

    connection: dict[str, str]
    """What libpq connects with; what is missing it takes from its environment (PGPASSWORD, ~/.pgpass, services)."""
    table: Table
    ledger: Table
    staging: Table
    """Used by strategy ``staged`` only."""
    keys: tuple[str, ...]
    """Not empty: a row replaces the one with the same values in these columns."""
    whole: bool
    """Each checkpoint brings the whole result (output mode ``complete``)."""
    strategy: str
    create: bool
    schema: Schema
    names: SinkNames
    connect_timeout_s: int
    lock_timeout_s: int

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.schema)

    @property
    def where(self) -> str:
        """For messages; without any secret."""
        known = self.connection
        host = known.get("host") or known.get("hostaddr") or "the default host"
        return f"{host}:{known.get('port', '5432')}/{known.get('dbname', '')}"


def parse_sink(sink: Sink, *, warn: bool = False) -> PostgresConfig:
    options = Options(sink.options, "postgres sink")
    if sink.partition_by:
        raise InvalidQuery(
            "partitionBy has no meaning for the postgres sink",
            hint="partition the table in PostgreSQL, and leave it out",
        )
    connection = _connection(options)
    named = options.text("dbtable") or options.text("table")
    table = parse_table(
        named or options.required("path", "name the table: option dbtable, or start('app.events')"), options
    )
    keys = _keys(options, sink)
    whole = sink.mode is OutputMode.COMPLETE
    if sink.mode is OutputMode.UPDATE and not keys:
        raise InvalidQuery(
            "the postgres sink needs to know which row of the table an update replaces",
            hint='name the key columns: .option("keys", "user_id, window_start"), or use output mode append',
        )
    strategy = options.choice("commitStrategy", STAGED if keys or whole else PREPARED, (PREPARED, STAGED))
    if strategy == PREPARED and (keys or whole):
        raise InvalidQuery(
            f"the postgres sink stages rows {'for keys' if keys else 'in output mode complete'}: "
            "commitStrategy prepared would keep rows locked from one checkpoint to the next, and block itself",
            hint="leave commitStrategy out",
        )
    for field in sink.schema:
        created_type(field.type, field.name)
    names = SinkNames.of(sink)
    ledger = options.text("ledger")
    config = PostgresConfig(
        connection=connection,
        table=table,
        ledger=parse_table(ledger, options) if ledger else table.beside(LEDGER),
        staging=table.beside(names.staging(sink.schema)),
        keys=keys,
        whole=whole,
        strategy=strategy,
        create=options.flag("createTable", True),
        schema=sink.schema,
        names=names,
        connect_timeout_s=options.integer("connectTimeout", 10, 1),
        lock_timeout_s=options.integer("lockTimeout", 30, 1),
    )
    options.ignore("checkpointLocation", "queryName", "driver")
    if warn:
        options.warn_unknown()
    return config


def parse_table(text: str, options: Options) -> Table:
    """``events``, ``app.events``, ``app."Events"``: names without quotes are lower case, as everywhere in PostgreSQL."""
    found = _TABLE.fullmatch(text.strip())
    if found is None:
        raise options.invalid("dbtable", text, 'a table name: events, app.events or app."Events"')
    schema, name = found.groups()
    return Table(_identifier(name), _identifier(schema) if schema else None)


def _identifier(text: str) -> str:
    return text[1:-1].replace('""', '"') if text.startswith('"') else text.lower()


def _connection(options: Options) -> dict[str, str]:
    url = options.text("url") or ""
    try:
        known = {name: str(value) for name, value in conninfo_to_dict(url.removeprefix("jdbc:")).items()}
    except psycopg.Error as error:
        # The text of the error may repeat the URL, and with it a password.
        reason = str(error).strip().replace(url, "…") if url else str(error).strip()
        raise InvalidQuery(
            f"option 'url' of the postgres sink cannot be read: {reason}",
            hint="write postgresql://user@host:5432/database, or host=… dbname=… user=…",
        ) from None
    for option, name in (("host", "host"), ("port", "port"), ("database", "dbname"), ("user", "user")):
        if value := options.text(option):
            known[name] = value
    if password := options.text("password"):
        known["password"] = password
    if not known:
        raise InvalidQuery(
            "the postgres sink needs the option 'url'", hint='.option("url", "postgresql://user@host:5432/database")'
        )
    return known


def _keys(options: Options, sink: Sink) -> tuple[str, ...]:
    text = options.text("keys") or ""
    keys = tuple(key.strip() for key in text.split(",") if key.strip())
    types = {field.name: field.type for field in sink.schema}
    missing = [key for key in keys if key not in types]
    if missing:
        raise InvalidQuery(
            f"option 'keys' of the postgres sink names {', '.join(missing)}, which the result does not have",
            hint=f"its columns are {', '.join(types)}",
        )
    if len(set(keys)) < len(keys):
        raise options.invalid("keys", text, "a list without repetition")
    if keys and sink.mode is OutputMode.COMPLETE:
        raise InvalidQuery(
            "output mode complete replaces the whole table: option 'keys' has no meaning there",
            hint="leave it out, or use output mode update",
        )
    for key in keys:
        if isinstance(types[key], t.Struct | t.Map | t.Array):
            raise InvalidQuery(
                f"key column {key!r} of the postgres sink is a {simple_string(types[key])}",
                hint="select its parts as columns: window.start AS window_start",
            )
    return keys
