"""T36, T38, T39 over random histories: no checkpoint that can be restored ever names a chunk that is gone, or lacks a change."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidegate.model.ids import CheckpointId
from tidegate.model.snapshot import ChunkHandle, KeyGroupRange
from tidegate.state.chain import Chain

KEYS = 40
steps = st.lists(
    st.one_of(
        st.tuples(st.just("change"), st.lists(st.integers(0, KEYS - 1), min_size=1, max_size=12)),
        st.tuples(st.just("snapshot"), st.booleans()),
        st.tuples(st.just("complete"), st.booleans()),
        st.tuples(st.just("abort"), st.booleans()),
        st.tuples(st.just("notice"), st.integers(0, 3)),
    ),
    max_size=60,
)


LEFT_OUT = ["snapshot", "complete", "snapshot", "notice", "snapshot", "complete", "complete"]
"""The second snapshot goes on from nothing, since nobody has said that the first is complete; the third is taken before anybody knows of
the second."""


@settings(max_examples=400, deadline=None)
@given(steps)
@example([(step, 0) for step in LEFT_OUT])
def test_every_complete_checkpoint_can_be_read_back(history: list) -> None:
    chain, epoch, checkpoint = Chain(), 1, 0
    value = dict.fromkeys(range(KEYS), 0)
    changed = dict.fromkeys(range(KEYS), 1)
    files: dict[str, dict[int, int]] = {}
    in_flight: list[tuple[int, tuple[str, ...], dict[int, int]]] = []
    complete: tuple[str, ...] = ()
    notices: list[int] = []

    def read(names: tuple[str, ...]) -> dict[int, int]:
        assert all(name in files for name in names), "refers to a deleted chunk"
        found: dict[int, int] = {}
        for name in names:
            found |= files[name]
        return found

    for step, argument in history:
        match step:
            case "change":
                for key in argument:
                    value[key] += 1
                    changed[key] = epoch
            case "snapshot" if len(in_flight) < 2:
                checkpoint += 1

                def rows_since(since: int) -> list[int]:
                    return [key for key, at in changed.items() if at > since]

                cut = chain.cut(lambda since: len(rows_since(since)), KEYS)
                rows = rows_since(cut.since)
                chain = chain.handed_out(CheckpointId(checkpoint), cut, epoch)
                epoch += 1
                handles = [link.handle for link in cut.kept]
                if rows:
                    files[f"c{checkpoint}"] = {key: value[key] for key in rows}
                    handles.append(
                        ChunkHandle(
                            name=f"c{checkpoint}", groups=KeyGroupRange(0, 1), rows=len(rows), size_bytes=1, checksum=0
                        )
                    )
                chain = chain.stored(CheckpointId(checkpoint), tuple(handles))
                in_flight.append((checkpoint, tuple(h.name for h in handles), dict(value)))
            case "complete" if in_flight:
                at = len(in_flight) - 1 if argument else 0
                number, names, expected = in_flight[at]
                retired = set(complete).union(*(older for _, older, _ in in_flight[:at]))
                in_flight = in_flight[at + 1 :]
                complete = names
                notices.append(number)
                # One checkpoint is retained: everything else goes at once.
                for name in retired - set(names):
                    files.pop(name, None)
                assert read(names) == expected
            case "abort" if in_flight:
                _, names, _ = in_flight.pop()
                for name in set(names) - set(complete) - {n for _, other, _ in in_flight for n in other}:
                    files.pop(name, None)
            case "notice" if notices:
                chain = chain.completed(CheckpointId(notices[argument % len(notices)]))
            case _:
                pass
        if complete:
            read(complete)
