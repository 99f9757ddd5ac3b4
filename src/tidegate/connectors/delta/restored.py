"""Whether a Delta table was set back by ``RESTORE``, and to what."""

from __future__ import annotations

from dataclasses import dataclass

from deltalake import DeltaTable

from tidegate.connectors.delta.config import DeltaConfig

VERSIONS_MAX = 100
"""How far back it is looked for: each version is a file of the log."""


@dataclass(frozen=True, slots=True)
class Restore:
    before: DeltaTable | None
    """The table at the version that was brought back. None: the ``RESTORE`` named a time, or that part of the log was cleaned up."""
    after: DeltaTable
    """Right after the ``RESTORE``."""


def restored_to(table: DeltaTable, config: DeltaConfig) -> Restore | None:
    """The newest ``RESTORE``. None: there was none, as far as one can see; parts of the history may be missing."""
    try:
        entry = next((one for one in table.history(VERSIONS_MAX) if one.get("operation") == "RESTORE"), None)
    except Exception:  # noqa: BLE001  the history is for people, and nothing depends on it
        return None
    after = None if entry is None else _at(config, entry.get("version"))
    if entry is None or after is None:
        return None
    parameters = entry.get("operationParameters") or {}
    return Restore(_at(config, parameters.get("version")), after)


def _at(config: DeltaConfig, version: object) -> DeltaTable | None:
    if not str(version).isdecimal():
        return None
    try:
        return DeltaTable(config.uri, version=int(str(version)), storage_options=config.storage_options)
    except Exception:  # noqa: BLE001  as above
        return None
