"""Streaming relations → Scan. Keys of options are lower case: Spark treats them as case-insensitive, and so do connectors."""

from __future__ import annotations

from pyspark.cloudpickle import loads

from tidegate.catalyst.context import Context, attributes, output_of
from tidegate.catalyst.input_files import METADATA, with_metadata
from tidegate.catalyst.java import Java, byte_string, class_name, pairs
from tidegate.catalyst.naming import Relation, Scope, fields_of
from tidegate.catalyst.types import schema_of
from tidegate.connectors.python_source.payload import pack
from tidegate.connectors.registry import parse_source
from tidegate.model.errors import InvalidQuery
from tidegate.model.types import Schema
from tidegate.plan.relational import Scan
from tidegate.ports.spec import ConnectorRequest


def file_scan(context: Context, plan: Java) -> Relation:
    """``StreamingRelation``: the file sources and other sources of Spark's first interface."""
    source = plan.dataSource()
    form = str(source.className())
    options = {key.lower(): value for key, value in pairs(source.options()).items()}
    known = {one.name for one in schema_of(source.sourceInfo().schema().json())}
    hidden = [str(node.fields["name"]) for node in attributes(plan) if node.fields["name"] not in known]
    if hidden not in ([], [METADATA]):
        raise InvalidQuery(
            f"the hidden column {hidden[0]!r} of a file source is not supported",
            hint=f"only {METADATA} is; write what you need into the rows, or into a directory name=value",
        )
    scanned = _scan(context, plan, form.lower(), options, b"")
    return with_metadata(context.names, scanned) if hidden or context.input_files else scanned


def table_scan(context: Context, plan: Java) -> Relation:
    """``StreamingRelationV2``: ``rate``, Kafka, and data sources written in Python."""
    form = str(plan.sourceName())
    options = {str(key).lower(): str(value) for key, value in dict(plan.extraOptions().asCaseSensitiveMap()).items()}
    if class_name(plan.table()) != "PythonTable":
        return _scan(context, plan, form.lower(), options, b"")
    return _scan(context, plan, form, options, _python_source(context, plan, form, options))


def _scan(context: Context, plan: Java, form: str, options: dict[str, str], payload: bytes) -> Relation:
    source_schema: Schema = output_of(plan)
    columns = {
        node.expr_id: context.names.column(one.name, one.type)
        for node, one in zip(attributes(plan), source_schema, strict=True)
    }
    nullable = {column.name: one.nullable for column, one in zip(columns.values(), source_schema, strict=True)}
    scan = Scan(
        id=context.names.operator("source"),
        spec=parse_source(
            ConnectorRequest(format=form, options=options, schema=source_schema, zone=context.zone, payload=payload)
        ),
        schema=fields_of(columns.values(), nullable),
        columns=tuple(one.name for one in source_schema),
    )
    return Relation(scan, Scope(columns))


def _python_source(context: Context, plan: Java, form: str, options: dict[str, str]) -> bytes:
    """The user's DataSource class, as Spark pickled it when it was registered, with what Spark would make it from."""
    session: Java = context.spark._jsparkSession
    registered = session.sessionState().dataSourceManager().lookupDataSource(form)
    kind = loads(byte_string(registered.dataSourceCls().command()))
    return pack(kind, options, str(plan.schema().json()))
