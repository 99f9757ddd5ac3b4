"""Where the checkpoints of a storm lie: on disk, or on a server that the storm starts and that outlives its drivers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

STORES = ("disk", "s3", "hdfs")


@dataclass(frozen=True)
class Home:
    """``location``: the directory of the checkpoint locations. ``options``: of the queries, to reach it."""

    location: str
    options: dict[str, str] = field(default_factory=dict)


@contextmanager
def home(store: str, folder: Path) -> Iterator[Home]:
    if store == "disk":
        yield Home(str(folder))
        return
    sys.path.append(str(Path(__file__).resolve().parent.parent))
    if store == "s3":
        from tests.servers.s3 import s3_server

        with s3_server(folder / "s3") as s3:
            yield Home(f"s3://{s3.bucket()}/storm", s3.options)
    else:
        from tests.servers.hdfs import hdfs_cluster

        with hdfs_cluster(folder / "hdfs") as hdfs:
            yield Home(f"{hdfs.uri}/storm")
