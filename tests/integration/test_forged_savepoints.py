"""A savepoint is input like any other: what it says about files is held against the query that starts from it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

import tidegate
from tidegate.checkpoint.layout import SAVEPOINT_KEY
from tidegate.checkpoint.manifest import encode
from tidegate.checkpoint.savepoint import read_savepoint
from tidegate.connectors.files.splits import FileSplit, KnownFiles
from tidegate.model.errors import InvalidQuery
from tidegate.model.snapshot import Split, SplitPosition
from tidegate.storage.local import LocalBlobStore

pytestmark = pytest.mark.spark


def writer(
    spark: SparkSession, folder: Path, source: Path, location: str, **options: object
) -> tidegate.DataStreamWriter:
    lines = spark.readStream.format("text").load(str(source))
    query = tidegate.writeStream(lines).format("parquet").options(**{"parallelism": 1, **options})
    query = query.option("checkpointLocation", str(folder / location)).option("path", str(folder / f"{location}-out"))
    return query.trigger(availableNow=True)


def saved(spark: SparkSession, folder: Path) -> Path:
    """Of a query that has read everything."""
    (folder / "in").mkdir()
    (folder / "in" / "mine.txt").write_text("mine\n")
    endless = writer(spark, folder, folder / "in", "old").trigger(availableNow=False, checkpoint="1 hour").start()
    endless.processAllAvailable()
    return Path(str(endless.stop(savepoint=str(folder / "saved"))))


def forge(savepoint: Path, **source: Any) -> None:
    """With a checksum that is right."""
    whole = read_savepoint(LocalBlobStore(savepoint))
    assert whole is not None
    (state,) = whole.manifest.sources
    manifest = msgspec.structs.replace(whole.manifest, sources=(msgspec.structs.replace(state, **source),))
    document = savepoint / SAVEPOINT_KEY
    document.unlink()
    document.write_bytes(encode(msgspec.structs.replace(whole, manifest=manifest)))


def known(*paths: Path) -> bytes:
    newest = tuple(FileSplit(path=str(path), size_bytes=path.stat().st_size) for path in paths)
    return msgspec.msgpack.encode(KnownFiles(newest=newest))


@pytest.mark.parametrize("opened", [False, True], ids=["known", "open"])
def test_a_savepoint_cannot_make_a_query_read_another_file(spark: SparkSession, tmp_path: Path, opened: bool) -> None:
    """T82: refused by ``start()``, which names split and document, before anything is read."""
    savepoint = saved(spark, tmp_path)
    secret = tmp_path / "secret.txt"
    secret.write_text("secret\n")
    file = FileSplit(path=str(secret), size_bytes=7)
    split = Split(number=1, payload=msgspec.msgpack.encode(file))
    mine = tmp_path / "in" / "mine.txt"
    if opened:
        forge(savepoint, open=(SplitPosition(split=split, position=None),), enumerator=known(mine, mine))
    else:
        forge(savepoint, enumerator=known(mine, secret))
    start = writer(spark, tmp_path, tmp_path / "in", "new", startFrom=str(savepoint))
    with pytest.raises(InvalidQuery, match=f"source-text_in in {savepoint}: split 1") as refused:
        start.start()
    assert str(secret) in str(refused.value)
    assert not list((tmp_path / "new").iterdir()), "nothing has been copied"
    assert not (tmp_path / "new-out").exists() or not list((tmp_path / "new-out").rglob("*.parquet"))


def test_a_directory_that_moved_goes_on_under_its_new_path(spark: SparkSession, tmp_path: Path) -> None:
    """What was read before is in nobody's way; what lies at the new place counts as new, as the documentation says."""
    savepoint = saved(spark, tmp_path)
    moved = tmp_path / "disk" / "in"
    shutil.move(tmp_path / "in", moved)
    (moved / "more.txt").write_text("more\n")
    pinned = {"uid.source": "source-text_in", "startFrom": str(savepoint)}
    with pytest.raises(InvalidQuery, match="place: "):
        writer(spark, tmp_path, moved, "unpinned", startFrom=str(savepoint)).start()
    assert writer(spark, tmp_path, moved, "new", **pinned).start().awaitTermination(120)
    rows = spark.read.parquet(str(tmp_path / "new-out")).collect()
    assert sorted(row.value for row in rows) == ["mine", "more"]
