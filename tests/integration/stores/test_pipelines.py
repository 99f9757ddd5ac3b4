"""The coordinator on every store, over its real server: what is visible stays exactly once, whatever the store does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.integration.small_pipeline import SmallPipeline, Visible
from tests.integration.stores.conftest import Home
from tests.servers.hdfs import Hdfs
from tests.servers.proxy import http_answer
from tests.servers.s3 import S3Server
from typer.testing import CliRunner

from tidegate.api.history import checkpoint_history
from tidegate.checkpoint import effects as fx
from tidegate.checkpoint.importing import find, perform_import
from tidegate.checkpoint.layout import CHECKPOINTS_PREFIX, STATE_PREFIX, ManifestKey, manifest_key, parse
from tidegate.checkpoint.manifest import Manifest, decode
from tidegate.checkpoint.savepoint import perform_export
from tidegate.cli.main import app
from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import Attempt, PipelineId
from tidegate.ports.store import BlobStore
from tidegate.spark.history import HistoryKeeper
from tidegate.spark.read_ahead import read_chunk
from tidegate.storage.open import open_store
from tidegate.storage.options import storage_options


def test_a_pipeline_goes_on_after_kill_9_and_the_fenced_one_ends(home: Home) -> None:
    visible = Visible()
    first = SmallPipeline(home.open, visible).start().run_s(3)
    second = SmallPipeline(home.open, visible).start(process="another").run_s(3)
    assert second.restored[-1] is not None
    first.run_s(2)
    assert isinstance(first.outcome, fx.Fenced)
    second.kill()
    SmallPipeline(home.open, visible).start(process="a third").run_s(2)
    visible.assert_whole(6)


def test_retired_checkpoints_leave_nothing_behind(home: Home) -> None:
    SmallPipeline(home.open, Visible()).start().run_s(6)
    store = home.open()
    manifests = [key for key in map(parse, store.list(CHECKPOINTS_PREFIX)) if isinstance(key, ManifestKey)]
    assert len(manifests) <= 3
    assert len(store.list(STATE_PREFIX)) <= 3


def test_answers_lost_at_every_step_lose_and_double_nothing(remote_home: Home) -> None:
    visible, proxy = Visible(), remote_home.proxy
    assert proxy is not None
    query = SmallPipeline(remote_home.open, visible).start()
    for _ in range(4):
        proxy.faults.lose_answer_to, proxy.faults.times = remote_home.create_request, 1
        query.run_s(1)
    assert len(proxy.faults.seen) >= 3
    assert query.outcome is None
    query.kill()
    SmallPipeline(remote_home.open, visible).start(process="another").run_s(2)
    visible.assert_whole(5)


def go_on(query: SmallPipeline, before: int) -> None:
    """Until two more checkpoints are complete."""
    for _ in range(30):
        if query.run_s(2).completed() >= before + 2:
            break
    assert query.outcome is None and query.completed() >= before + 2


def test_a_store_that_is_cut_off_while_running_fails_checkpoints_in_words_and_loses_nothing(remote_home: Home) -> None:
    visible, proxy = Visible(), remote_home.proxy
    assert proxy is not None
    query = SmallPipeline(remote_home.open, visible).start().run_s(2)
    before = query.completed()
    # Whatever is asked, the connection is cut: every request names the location.
    proxy.faults.answer_instead, proxy.faults.times = (remote_home.every_request, b""), 1_000_000
    query.run_s(2)
    assert query.failures() and "cannot write" in query.failures()[-1] and "tried again" in query.failures()[-1]
    proxy.faults.times = 0
    go_on(query, before)
    visible.assert_whole(before + 2)


def test_a_full_store_fails_checkpoints_in_words_and_goes_on_when_there_is_space(s3_home: Home) -> None:
    visible, proxy = Visible(), s3_home.proxy
    assert proxy is not None
    query = SmallPipeline(s3_home.open, visible).start().run_s(2)
    before = query.completed()
    words = "<Error><Code>XMinioStorageFull</Code><Message>Storage backend has reached its minimum free drive</Message></Error>"
    proxy.faults.answer_instead, proxy.faults.times = (
        (b"PUT /", http_answer("507 Insufficient Storage", words)),
        1_000_000,
    )
    query.run_s(2)
    assert query.failures() and all("free some space" in reason for reason in query.failures()), query.failures()[:1]
    proxy.faults.times = 0
    go_on(query, before)
    visible.assert_whole(before + 2)


def test_a_full_quota_of_hdfs_fails_checkpoints_in_words_and_goes_on_when_there_is_space(
    hdfs: Hdfs, hdfs_home: Home
) -> None:
    visible = Visible()
    query = SmallPipeline(hdfs_home.open, visible).start().run_s(2)
    before = query.completed()
    path = "/homes/" + hdfs_home.location.rpartition("/")[2]
    hdfs.set_space_quota(path, 1)
    query.run_s(2)
    assert query.failures() and all("free some space" in reason for reason in query.failures()), query.failures()[:1]
    hdfs.set_space_quota(path, None)
    go_on(query, before)
    visible.assert_whole(before + 2)


def test_a_key_revoked_while_running_fails_checkpoints_in_words_and_loses_nothing(s3: S3Server, bucket: str) -> None:
    key, visible = s3.access_key(), Visible()
    given = {name.removeprefix("storage."): value for name, value in s3.options_for(key).items()}
    options = storage_options({**given, "retries": "0"})
    query = SmallPipeline(lambda: open_store(f"s3://{bucket}/revoked-while-running", options), visible)
    with s3.check_keys():
        query.start().run_s(2)
        s3.revoke(key)
        query.run_s(2)
        assert query.failures() and "InvalidAccessKeyId" in query.failures()[-1]
        assert key.secret not in str(query.reports)
        seen = len(visible.rows)
    query.run_s(60)
    assert query.outcome is None, "it is tried again until the key works"
    visible.assert_whole(seen + 2)


def test_a_start_with_a_wrong_key_is_the_users_mistake_and_touches_nothing(s3: S3Server, bucket: str) -> None:
    given = {name.removeprefix("storage."): value for name, value in s3.options.items()}
    options = storage_options({**given, "retries": "0"})
    with s3.check_keys(), pytest.raises(InvalidQuery, match="InvalidAccessKeyId"):
        SmallPipeline(lambda: open_store(f"s3://{bucket}/wrong-key", options), Visible()).start()
    assert not [key for key in s3.keys(bucket) if key.startswith("wrong-key")]


def _newest(store: BlobStore) -> Manifest:
    refs = [key.ref for key in map(parse, store.list(CHECKPOINTS_PREFIX)) if isinstance(key, ManifestKey)]
    key = manifest_key(max(refs))
    data = store.read(key)
    assert data is not None
    return decode(Manifest, key, data)


def test_a_savepoint_travels_from_store_to_store(local_home: Home, s3_home: Home, hdfs_home: Home) -> None:
    """disk → S3 → HDFS → disk, and what is read at the end is what was saved at the beginning."""
    SmallPipeline(local_home.open, Visible()).start().run_s(3)
    here = local_home.open()
    options = storage_options({**s3_home.options.values, **hdfs_home.options.values})
    targets = [f"{s3_home.location}/savepoint", f"{hdfs_home.location}/savepoint", f"{local_home.location}-savepoint"]
    saved = _newest(here)
    for target in targets:
        manifest = _newest(here)
        effect = fx.ExportSavepoint(Attempt(1), manifest, target, drained=False)
        done = perform_export(effect, here, lambda place: open_store(place, options), lambda: 0)
        assert type(done).__name__ == "SavepointExported", done
        found = find(target, lambda place: open_store(place, options, make=False))
        here = open_store(f"{target}-started", options)
        perform_import(found, here, target, PipelineId("new"))
    (old,), (new,) = ([chunk for one in which.operators for chunk in one.chunks] for which in (saved, _newest(here)))
    assert read_chunk(local_home.open(), old).equals(read_chunk(here, new))


def test_the_history_is_read_from_every_store_by_the_command_line_too(home: Home, tmp_path: Path) -> None:
    query = SmallPipeline(home.open, Visible()).start().run_s(3)
    keeper = HistoryKeeper(home.open(), "q")
    for report in query.reports:
        keeper.on_report(report)
    keeper.close()
    told = checkpoint_history(home.location, {f"storage.{name}": value for name, value in home.options.values.items()})
    assert len(told) >= 3
    settings = [part for name, value in home.options.values.items() for part in ("--storage", f"{name}={value}")]
    shown = CliRunner().invoke(app, ["checkpoints", home.location, "--json", *settings])
    assert [json.loads(line)["id"] for line in shown.stdout.splitlines()] == [one["id"] for one in told]
    with pytest.raises(InvalidQuery, match="no checkpoint location"):
        elsewhere = f"file://{tmp_path}/none" if home.kind == "local" else home.location + "/nothing"
        if home.kind == "hdfs":
            open_store(elsewhere, home.options)
        checkpoint_history(elsewhere, home.options.values)
