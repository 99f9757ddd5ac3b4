"""Names under which a sink keeps things in a database, and the documents that tie checkpoints to them.

::

    tidegate/<pipeline>/<sink>/<attempt>/<subtask>/<checkpoint>   a prepared transaction
    tidegate_ledger                                               one row per committed part of a checkpoint, for all sinks
    tidegate_staged_<sink>_<shape>                                rows that wait for their commit (strategy staged)
    tidegate <sink> a<attempt> s<subtask>                         application_name of a slot's session
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import quote

import msgspec
from psycopg import sql

from tidegate.connectors.legacy import Sink
from tidegate.connectors.options import PIPELINE, Options
from tidegate.model.errors import Bug
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex
from tidegate.model.types import Schema, simple_string
from tidegate.operators.values import decoded

_NAME_CHARACTERS_MAX = 64
"""A transaction's name has at most 199 bytes, two such parts and three numbers among them."""
_TRANSACTION = re.compile(r"tidegate/([^/]+)/([^/]+)/(\d+)/(\d+)/(\d+)")
_SESSION = re.compile(r"tidegate [0-9a-f]+ a(\d+) s\d+")
STAGED_PREFIX = "tidegate_staged_"


class Table(msgspec.Struct, frozen=True, array_like=True):
    """A table by its name; without a schema PostgreSQL looks for it along the search path of the user."""

    name: str
    schema: str | None = None

    @property
    def sql(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name) if self.schema else sql.Identifier(self.name)

    def beside(self, name: str) -> Table:
        return Table(name, self.schema)

    def __str__(self) -> str:
        """As SQL writes it."""
        return self.sql.as_string(None)


class PreparedTransaction(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="postgres/1"):
    """Rows that stand in the table once the transaction ``gid`` is committed, and with them a row in ``ledger``."""

    gid: str
    ledger: Table
    attempt: Attempt
    rows: int


class StagedRows(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="postgres-staged/1"):
    """Rows of ``staging`` that a commit moves into ``table``. All that the commit needs stands here: the query may have changed since."""

    staging: Table
    table: Table
    ledger: Table
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    whole: bool
    attempt: Attempt
    part: int
    rows: int


Prepared: TypeAlias = PreparedTransaction | StagedRows


def decode(payload: bytes) -> Prepared:
    return decoded(payload, Prepared, "a committable of the postgres sink")


@dataclass(frozen=True, slots=True)
class SinkNames:
    """All names of one sink of one pipeline. Nobody else's names can equal them."""

    pipeline: str
    sink: str

    @classmethod
    def of(cls, sink: Sink) -> SinkNames:
        """Until the driver has said whose the sink is, the names are good for checks only."""
        return cls(_short(Options(sink.options, "postgres sink").text(PIPELINE) or ""), _short(sink.id))

    def transaction(self, attempt: Attempt, subtask: SlotIndex, checkpoint: CheckpointId) -> str:
        if not self.pipeline:
            raise Bug(
                f"{PIPELINE} is missing from the options of sink {self.sink}: the driver sets it before it deploys"
            )
        return f"tidegate/{self.pipeline}/{self.sink}/{attempt}/{subtask}/{checkpoint}"

    def attempt_of(self, gid: str) -> Attempt | None:
        """Which attempt prepared the transaction called so; None for a name that is not this sink's."""
        found = _TRANSACTION.fullmatch(gid)
        ours = found is not None and (found[1], found[2]) == (self.pipeline, self.sink)
        return Attempt(int(found[3])) if ours and found is not None else None

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.pipeline}/{self.sink}".encode()).hexdigest()[:16]

    def staging(self, schema: Schema) -> str:
        """Another result, another table: rows that wait in the old one stay as they are."""
        shape = "\n".join(f"{field.name} {simple_string(field.type)}" for field in schema)
        return f"{self.staging_prefix}{hashlib.sha256(shape.encode()).hexdigest()[:8]}"

    @property
    def staging_prefix(self) -> str:
        return f"{STAGED_PREFIX}{self.digest}_"

    def session(self, attempt: Attempt, subtask: SlotIndex) -> str:
        return f"tidegate {self.digest} a{attempt} s{subtask}"

    @property
    def session_prefix(self) -> str:
        return f"tidegate {self.digest} a"


def session_attempt(application_name: str) -> Attempt | None:
    found = _SESSION.fullmatch(application_name)
    return Attempt(int(found[1])) if found else None


def _short(text: str) -> str:
    safe = quote(text, safe="")
    return safe if len(safe) <= _NAME_CHARACTERS_MAX else hashlib.sha256(text.encode()).hexdigest()[:32]
