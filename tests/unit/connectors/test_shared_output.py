"""One output directory, several writers: queries side by side, sinks of one query, runs of different sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.unit.connectors.test_file_sink import prepared, rows, sink_to, staged, visible, writer

from tidegate.connectors.files.committer import FileSinkCommitter
from tidegate.connectors.files.staging import StagingNames
from tidegate.connectors.legacy import Sink
from tidegate.model.ids import Attempt, OperatorId


def test_two_queries_on_one_path_neither_publish_nor_sweep_each_others_output(tmp_path: Path) -> None:
    """T55: same sink, same attempt, same subtask, same checkpoint; only the pipeline tells them apart, and it is in every name."""
    one, two = sink_to(tmp_path, pipeline="p1"), sink_to(tmp_path, pipeline="p2")
    mine, theirs = writer(one), writer(two)
    mine.write(rows(1, 2))
    theirs.write(rows(3))
    ready, others = prepared(mine, 7), prepared(theirs, 7)
    FileSinkCommitter(one).sweep(Attempt(99), keep=ready)
    FileSinkCommitter(one).commit(ready)
    assert visible(tmp_path) == [1, 2]
    FileSinkCommitter(one).sweep(Attempt(99), keep=())
    FileSinkCommitter(two).commit(others)
    assert visible(tmp_path) == [1, 2, 3]


def test_sinks_of_one_query_have_names_of_their_own_on_one_path(tmp_path: Path) -> None:
    """T55: ids that differ in a single character included."""

    def named(operator: str) -> Sink:
        return replace(sink_to(tmp_path), id=OperatorId(operator))

    ids = ("sink-parquet", "sink_parquet", "dead-letter-f", "dead_letter_f", "dead-letter-f-2")
    assert len({StagingNames.of(named(one)).directory for one in ids}) == len(ids)
    main, letters = named("dead_letter_f"), named("dead-letter-f")
    kept = writer(letters)
    kept.write(rows(1))
    ready = prepared(kept, 1)
    FileSinkCommitter(main).sweep(Attempt(99), keep=())
    FileSinkCommitter(letters).commit(ready)
    assert visible(tmp_path) == [1]


def test_a_crash_of_many_before_the_first_checkpoint_leaves_nothing_to_a_run_of_few(tmp_path: Path) -> None:
    """T54: eight subtasks had staged files, nothing was ever prepared; two subtasks come next."""
    sink = sink_to(tmp_path)
    crashed = [writer(sink, attempt=1, subtask=subtask) for subtask in range(8)]
    for number, one in enumerate(crashed):
        one.write(rows(number))
    assert len(staged(tmp_path)) == 8
    FileSinkCommitter(sink).sweep(Attempt(2), keep=())
    assert staged(tmp_path) == []
    again = [writer(sink, attempt=2, subtask=subtask) for subtask in range(2)]
    for number, one in enumerate(again):
        one.write(rows(10 + number))
    FileSinkCommitter(sink).commit(tuple(c for subtask, one in enumerate(again) for c in prepared(one, 1, subtask)))
    assert visible(tmp_path) == [10, 11]


def test_unconfirmed_output_of_many_is_published_by_a_run_of_few_and_the_rest_is_swept(tmp_path: Path) -> None:
    """T46 T54: five subtasks had prepared checkpoint 1 and begun the next; the manifest carries the five, and only them."""
    sink = sink_to(tmp_path)
    old = [writer(sink, attempt=1, subtask=subtask) for subtask in range(5)]
    for number, one in enumerate(old):
        one.write(rows(number))
    owed = tuple(c for subtask, one in enumerate(old) for c in prepared(one, 1, subtask))
    for one in old:
        one.write(rows(99))
    committer = FileSinkCommitter(sink)
    committer.commit(owed)
    committer.sweep(Attempt(2), keep=owed)
    assert staged(tmp_path) == []
    assert visible(tmp_path) == [0, 1, 2, 3, 4]
