"""The checkpoints of a pipeline, told without running it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tidegate.checkpoint import layout
from tidegate.model.errors import InvalidQuery
from tidegate.spark.history import read_history
from tidegate.storage.open import local_path, open_store


def checkpoint_history(location: str) -> list[dict[str, Any]]:
    """What ``query.checkpoints`` was when the query at this checkpoint location last wrote it down: at most 10 s ago while it runs.

    Reads only. Raises InvalidQuery for a place that is no checkpoint location, ``Unavailable`` when it does not answer.
    """
    # Opening a store makes its directory: asking about a place must not.
    if not Path(local_path(location)).is_dir() or (store := open_store(location)).read(layout.PIPELINE_KEY) is None:
        raise InvalidQuery(
            f"{location} is no checkpoint location",
            hint="name the directory that the query was given as option checkpointLocation",
        )
    return [record.as_dict() for record in read_history(store)]
