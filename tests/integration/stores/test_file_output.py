"""Files whose directory lies in an object store or in HDFS: visible once each, whoever commits them and whatever is lost on the way."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from hdfs_native import Client
from tests.integration.stores.conftest import Home
from tests.integration.stores.file_output import LOG, Output
from tests.integration.stores.test_conformance import WeakStore
from tests.servers.buckets import bucket_server
from tests.servers.hdfs import Hdfs
from tests.servers.s3 import S3Server
from tests.unit.connectors.test_file_sink import prepared, rows

from tidegate.connectors.files import spark_log
from tidegate.connectors.files.committer import FileSinkCommitter
from tidegate.model.errors import CorruptSnapshot, InvalidQuery, Unavailable
from tidegate.model.ids import Attempt, CheckpointId
from tidegate.storage.options import storage_options
from tidegate.storage.output_directory import StoreDirectory, open_directory


@pytest.fixture
def on_s3(s3: S3Server, s3_home: Home) -> Output:
    return Output(s3_home, s3)


@pytest.fixture
def on_hdfs(hdfs: Hdfs, hdfs_home: Home) -> Output:
    return Output(hdfs_home, Client(hdfs.uri))


@pytest.fixture(params=["s3", "hdfs"])
def output(request: pytest.FixtureRequest) -> Output:
    return request.getfixturevalue(f"on_{request.param}")


def test_rows_are_visible_after_the_commit_and_not_before(output: Output) -> None:
    """T5, with names that stores and URIs like least."""
    sink = output.sink(partition_by=("k",))
    committer = output.committer(sink)
    to = output.writer(sink)
    odd = rows(1, 2, 3).with_columns(k="a/b %#?+ü=" + rows(1, 2, 3)["k"])
    to.write(odd)
    ready = prepared(to, 1)
    assert all(name.startswith("_tidegate/staged/p1/sink-0/") for name in output.files()) and output.staged()
    committer.commit(ready)
    assert output.visible() == [1, 2, 3] and output.staged() == []
    directories = {name.partition("/")[0] for name in output.files() if "part-" in name}
    assert directories == {f"k=a%2Fb %25%23%3F+ü%3Dk{n}" for n in range(3)}


@pytest.mark.parametrize("form", ["json", "csv"])
def test_lines_of_many_subtasks_are_one_file(on_s3: Output, form: str) -> None:
    output = replace(on_s3, format=form)
    sink = output.sink(mergeSmallFiles="1m", compression="gzip")
    output.committer(sink).commit(output.epoch(sink, 3))
    (name,) = (name for name in output.files() if name.startswith("part-"))
    assert output.visible() == [100, 101, 102] and name.endswith(f".{form}.gz")


def test_a_commit_may_be_repeated_and_a_zombies_comes_minutes_late(output: Output) -> None:
    """T1 T2."""
    sink = output.sink()
    zombie, owed = output.committer(sink), output.epoch(sink, 2)
    for _ in range(2):
        output.committer(sink).commit(owed)
    output.committer(sink).commit(owed[1:] + output.epoch(sink, 1, checkpoint=2, attempt=2))
    before = output.files()
    zombie.commit(owed)
    assert output.files() == before and output.visible() == [100, 101, 200]


@pytest.mark.parametrize(("log", "step"), [("true", "published"), ("true", "recorded"), ("false", "published")])
def test_a_crash_in_the_middle_of_a_commit_is_completed_by_the_next_one(
    output: Output, monkeypatch: pytest.MonkeyPatch, log: str, step: str
) -> None:
    """T3: files have their final names and no ledger knows, or it knows and what was staged is still there."""
    sink = output.sink(sparkMetadataLog=log)
    owed = output.epoch(sink, 3)
    dying = output.committer(sink)
    record = dying._ledger.record

    def die(*args: object) -> None:
        if step == "recorded":
            record(*args)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(dying._ledger, "record", die)
    with pytest.raises(KeyboardInterrupt):
        dying.commit(owed)
    if log == "true":
        assert output.visible_to_spark() == ([] if step == "published" else [100, 101, 102]), "all of it or nothing"
    output.committer(sink).commit(owed)
    output.committer(sink).sweep(Attempt(2), ())
    files = output.files()
    assert len([name for name in files if name.startswith("part-")]) == 3 and output.staged() == []
    if log == "true":
        assert output.visible() == [100, 101, 102] and f"{LOG}/1" not in files


def test_a_zombie_stopped_before_its_last_step_adds_nothing(output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    """T2: it has published; meanwhile its successor has recorded that, and a user has taken a file away."""
    sink = output.sink()
    zombie, owed = output.committer(sink), output.epoch(sink, 2)
    record = zombie._ledger.record

    def stopped(*args: object) -> None:
        output.committer(sink).commit(owed)
        open_directory(output.url, output.home.options).delete(next(n for n in output.files() if n.startswith("part-")))
        record(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(zombie._ledger, "record", stopped)
    zombie.commit(owed)
    assert [name for name in output.files() if name.startswith(f"{LOG}/") and name[-1].isdigit()] == [f"{LOG}/0"]


def test_committers_that_race_make_every_row_visible_once(output: Output) -> None:
    sink = output.sink(mergeSmallFiles="1m")
    owed = output.epoch(sink, 3) + output.epoch(sink, 2, checkpoint=2, attempt=2)
    racers, errors, start = [output.committer(sink) for _ in range(3)], [], threading.Barrier(3)

    def commit(racer: FileSinkCommitter) -> None:
        try:
            start.wait()
            racer.commit(owed)
        except BaseException as error:  # noqa: BLE001 - reported below
            errors.append(error)

    threads = [threading.Thread(target=commit, args=(racer,)) for racer in racers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [] and output.visible() == [100, 101, 102, 200, 201]
    assert len([name for name in output.files() if name.startswith("part-")]) == 2, "small files are merged"


@pytest.mark.parametrize("request_of", ["publication", "ledger"])
def test_an_answer_that_is_lost_loses_and_doubles_nothing(output: Output, request_of: str) -> None:
    sink, proxy = output.sink(), output.home.proxy
    assert proxy is not None
    owed = output.epoch(sink, 2)
    committer = output.committer(sink)
    copy = b"x-amz-copy-source" if output.home.kind == "s3" else b"rename2"
    batch = b"_spark_metadata/0" if output.home.kind == "s3" else b".tmp-"
    proxy.faults.lose_answer_to = copy if request_of == "publication" else batch
    for _ in range(3):
        try:
            committer.commit(owed)
        except Unavailable:
            continue
        break
    assert len(proxy.faults.seen) == 1
    assert output.visible() == [100, 101] and output.staged() == []


def test_a_sweep_takes_older_attempts_and_nothing_else(output: Output) -> None:
    """T54, T9: what a zombie staged goes; kept committables, newer attempts and other pipelines stay."""
    sink, other = output.sink(), output.sink(pipeline="p2")
    dead, kept, live = (output.epoch(sink, 1, checkpoint=attempt, attempt=attempt) for attempt in (1, 2, 3))
    theirs = output.epoch(other, 1)
    assert dead
    output.committer(sink).sweep(Attempt(3), keep=kept)
    assert output.staged() == [
        "_tidegate/staged/p1/sink-0/000002-00000-000000.snappy.parquet",
        "_tidegate/staged/p1/sink-0/000003-00000-000000.snappy.parquet",
        "_tidegate/staged/p2/sink-0/000001-00000-000000.snappy.parquet",
    ]
    output.committer(sink).commit(kept + live)
    output.committer(other).commit(theirs)
    assert output.visible() == [100, 200, 300]


def test_the_log_is_compacted_and_read_on_by_the_next_run(output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_log, "COMPACT_INTERVAL", 3)
    sink = output.sink()
    for checkpoint in range(1, 6):
        output.committer(sink).commit(output.epoch(sink, 1, checkpoint, attempt=checkpoint))
    batches = sorted(name for name in output.files() if name.startswith(f"{LOG}/") and not name.endswith(".begun"))
    assert batches == [f"{LOG}/{name}" for name in ("0", "1", "2.compact", "3", "4")]
    assert output.visible() == [100, 200, 300, 400, 500]


def test_large_files_travel_in_parts_and_what_was_not_prepared_goes(output: Output) -> None:
    """Rolled by size, so that some are on their way while rows are still written."""
    output = replace(output, format="json")
    sink = output.sink(rollingSize="9m")
    to = output.writer(sink)
    wide = rows(*range(20_000)).with_columns(k="x" * 1_000 + rows(*range(20_000))["k"])
    for start in range(0, 20_000, 5_000):
        to.write(wide.slice(start, 5_000))
    ready = prepared(to, 1)
    sizes = [len(data) for name, data in output.files().items() if name.startswith("_tidegate/")]
    assert len(sizes) == 2 and max(sizes) > 8 << 20
    output.committer(sink).commit(ready)
    assert output.visible() == list(range(20_000))
    to.write(wide.head(10_000))
    to.close()
    output.committer(sink).sweep(Attempt(2), ())
    assert output.staged() == []


def test_a_staged_file_that_vanished_is_reported_and_named(output: Output) -> None:
    sink = output.sink()
    owed = output.epoch(sink, 1)
    (staged,) = output.staged()
    open_directory(output.url, output.home.options).delete(staged)
    with pytest.raises(CorruptSnapshot, match="part-000001"):
        output.committer(sink).commit(owed)


def test_a_directory_that_holds_files_gets_no_log_that_would_hide_them(output: Output) -> None:
    open_directory(output.url, output.home.options).create("k=1/somebody.parquet", b"PAR1")
    with pytest.raises(InvalidQuery, match=r"somebody\.parquet"):
        output.committer(output.sink(sparkMetadataLog="true"))
    sink = output.sink()
    owed = output.epoch(sink, 1)
    for _ in range(2):
        output.committer(sink).commit(owed)
    files = output.files()
    assert len([name for name in files if name.startswith("part-")]) == 1
    assert not [name for name in files if name.startswith(LOG)]


def test_a_store_that_takes_a_name_twice_is_found_out_before_anything_is_written(on_s3: Output) -> None:
    directory = open_directory(on_s3.url, on_s3.home.options)
    assert isinstance(directory, StoreDirectory)
    weak = StoreDirectory(WeakStore(directory._store), on_s3.url)  # type: ignore[arg-type]
    with pytest.raises(InvalidQuery, match="created twice"):
        weak.make()


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("s3a://no-such-bucket-here/out", "NoSuchBucket"),
        ("ftp://host/out", "no store for ftp"),
        ("s3a:///out", "names no bucket"),
    ],
)
def test_a_place_that_is_not_there_is_told_at_the_start(on_s3: Output, path: str, words: str) -> None:
    options = storage_options({**on_s3.home.options.values, "retries": "0"})
    elsewhere = replace(on_s3, home=replace(on_s3.home, location=path, options=options))
    with pytest.raises(InvalidQuery, match=words):
        elsewhere.committer(elsewhere.sink())


def test_a_store_that_does_not_answer_fails_the_checkpoint_and_loses_nothing(output: Output) -> None:
    """The attempt ends; the next one finds the store again, and what the first had staged is swept."""
    sink, proxy = output.sink(), output.home.proxy
    assert proxy is not None
    options = storage_options({**output.home.options.values, "timeoutSeconds": "1", "retries": "0"})
    impatient = replace(output, home=replace(output.home, options=options))
    committer, to = output.committer(sink), impatient.writer(sink)
    to.write(rows(1))
    proxy.faults.stalled = True
    with pytest.raises(Unavailable):
        to.prepare(CheckpointId(1))
    to.close()
    proxy.faults.stalled = False
    owed = output.epoch(sink, 1, attempt=2)
    committer.sweep(Attempt(2), ())
    committer.commit(owed)
    assert output.visible() == [100]


@pytest.mark.parametrize("scheme", ["gs", "az"])
def test_files_are_copied_within_googles_and_azures_stores_as_well(scheme: str) -> None:
    with bucket_server() as server:
        options = storage_options(server.options_for(scheme))
        output = Output(Home(scheme, f"{scheme}://bucket/out put", options), server)
        sink = output.sink(partition_by=("k",))
        owed = output.epoch(sink, 2)
        for _ in range(2):
            output.committer(sink).commit(owed)
        assert output.visible() == [100, 101] and output.staged() == []
        lost = output.epoch(sink, 1, checkpoint=2, attempt=2)
        server.objects = {key: one for key, one in server.objects.items() if "staged" not in key}
        with pytest.raises(CorruptSnapshot, match="part-000002"):
            output.committer(sink).commit(lost)
