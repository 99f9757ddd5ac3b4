"""How much of its input a checkpoint has read, told from its manifest alone."""

from __future__ import annotations

import msgspec

from tidegate.checkpoint.manifest import Manifest

ALL = -1


def rows_read(manifest: Manifest) -> dict[str, dict[int, int]]:
    """Source → split → rows read; ``ALL``: to its end. Splits that are not named have not been begun."""
    return {
        source.operator: {
            **{number: ALL for one in source.done for number in range(one.start, one.stop)},
            **{
                one.split.number: msgspec.msgpack.decode(one.position, type=int) if one.position else 0
                for one in source.open
            },
        }
        for source in manifest.sources
    }
