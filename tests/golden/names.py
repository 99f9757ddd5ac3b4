"""Names under which a version finds again what it has stored, in a location and in targets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from tidegate.checkpoint import layout
from tidegate.connectors.files.staging import StagingNames
from tidegate.connectors.kafka.sink.names import DEFAULT_PREFIX, TransactionNames
from tidegate.connectors.lake.notes import DIRECTORY, SinkName
from tidegate.connectors.legacy import Sink
from tidegate.connectors.postgres.names import SinkNames
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex
from tidegate.model.types import LONG, Field
from tidegate.ports.context import SinkContext


def names() -> dict[str, str]:
    """Under which things are found again, in a location and in targets."""
    attempt, slot, checkpoint, operator = Attempt(3), SlotIndex(1), CheckpointId(42), OperatorId("sink-parquet")
    ref = layout.ManifestRef(checkpoint, attempt)
    node = Sink(
        id=operator,
        format="parquet",
        options={"tidegate.pipeline": "0123456789abcdef", "url": "postgresql://u@h/d", "dbtable": "t"},
        columns=(("v", "v"),),
        schema=(Field("v", LONG),),
    )
    staged = StagingNames.of(node)
    lake = SinkName.of(cast(SinkContext, SimpleNamespace(pipeline="0123456789abcdef", operator=operator)))
    return {
        "claim": layout.claim_key(attempt),
        "restored": layout.restored_key(attempt),
        "manifest": layout.manifest_key(ref),
        "committed": layout.committed_key(ref),
        "chunk": layout.chunk_key(layout.chunk_name(operator, attempt, slot, checkpoint, 5)),
        "history": layout.history_key(17),
        "waiting": layout.waiting_key(operator, attempt, slot, 5),
        "done": layout.done_key(operator, ref),
        "file, staged": staged.staged(attempt, slot, 5, "snappy.parquet"),
        "file, final": staged.final("k=v", checkpoint, attempt, slot, 5, "snappy.parquet"),
        "files, staged": staged.directory,
        "transaction of Kafka": TransactionNames.of(node, DEFAULT_PREFIX).name(attempt, slot, 2),
        "group of Kafka": TransactionNames.of(node, DEFAULT_PREFIX).group,
        "transaction of PostgreSQL": SinkNames.of(node).transaction(attempt, slot, checkpoint),
        "notes of tables": f"{DIRECTORY}/{lake.pipeline}/{lake.sink}",
    }
