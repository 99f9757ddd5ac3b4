"""Values, lists, maps, timers and times to live of one key at a time, in both backends."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidegate.model import types as t
from tidegate.model.snapshot import KeyGroupRange
from tidegate.model.types import Field
from tidegate.operators.stateful.keyed_state import KeyedState
from tidegate.operators.stateful.variables import Variables
from tidegate.operators.user_functions import record_maker
from tidegate.state.entries import EntryBackend, EntryTable
from tidegate.state.entries_in_memory import EntriesInMemory
from tidegate.storage.rocksdb_entries import EntriesInRocksDb

NUMBER = (Field("n", t.LONG),)
WORD = (Field("w", t.STRING),)


def in_rocksdb() -> EntryBackend:
    return EntriesInRocksDb(Path(tempfile.mkdtemp()))


@pytest.fixture(params=[EntriesInMemory, in_rocksdb])
def state(request: pytest.FixtureRequest) -> Iterator[KeyedState]:
    make: Callable[[], EntryBackend] = request.param
    table = EntryTable(make(), KeyGroupRange(0, 8), 100)
    state = KeyedState(table, Variables(), record_maker)
    state.enter(1, b"key")
    yield state
    table.close()


def test_a_value_belongs_to_one_key_and_one_variable(state: KeyedState) -> None:
    one, other = state.value("one", NUMBER), state.value("on", NUMBER)
    one.update((1,))
    assert one.get() == (1,) and one.exists() and other.get() is None and not other.exists()
    state.enter(1, b"key2")
    assert one.get() is None
    one.update((2,))
    state.enter(1, b"key")
    assert one.get() == (1,)
    one.clear()
    one.clear()
    assert one.get() is None and state.table.rows == 1


def test_a_list_keeps_its_order_through_appends_and_is_replaced_whole(state: KeyedState) -> None:
    items = state.list("l", NUMBER)
    assert items.get() == [] and not items.exists()
    items.append([(3,), (1,)])
    items.append([(2,)])
    assert items.get() == [(3,), (1,), (2,)] and items.exists()
    items.put([(9,)])
    items.append([(8,)])
    assert items.get() == [(9,), (8,)]
    items.clear()
    assert items.get() == [] and state.table.rows == 0


def test_a_list_of_more_than_a_byte_counts_keeps_its_order(state: KeyedState) -> None:
    items = state.list("l", NUMBER)
    for i in range(300):
        items.append([(i,)])
    assert [n for (n,) in items.get()] == list(range(300))


def test_a_map_knows_its_keys_by_value(state: KeyedState) -> None:
    entries = state.map("m", WORD, NUMBER)
    entries.update(("b",), (1,))
    entries.update(("a",), (2,))
    entries.update(("b",), (3,))
    assert entries.get(("b",)) == (3,) and entries.contains(("a",)) and entries.get(("c",)) is None
    assert sorted(entries.items()) == [(("a",), (2,)), (("b",), (3,))]
    entries.remove(("a",))
    entries.remove(("c",))
    assert entries.items() == [(("b",), (3,))] and entries.exists()
    entries.clear()
    assert not entries.exists() and state.table.rows == 0


def test_an_entry_past_its_time_is_invisible_at_once_and_gone_later(state: KeyedState) -> None:
    value, items, entries = (
        state.value("v", NUMBER, 100),
        state.list("l", NUMBER, 100),
        state.map("m", WORD, NUMBER, 100),
    )
    state.now_ms = 1_000
    value.update((1,))
    items.append([(1,)])
    entries.update(("a",), (1,))
    state.now_ms = 1_050
    items.append([(2,)])
    entries.update(("b",), (2,))
    state.now_ms = 1_099
    assert value.get() == (1,) and items.get() == [(1,), (2,)] and len(entries.items()) == 2
    state.now_ms = 1_100
    assert value.get() is None and not value.exists()
    assert items.get() == [(2,)] and entries.items() == [(("b",), (2,))] and not entries.contains(("a",))
    state.drop_expired()
    assert state.table.rows == 3, "an element, the head of its list, a map entry"
    state.now_ms = 1_150
    state.drop_expired()
    assert state.table.rows == 0 and state.expiring.next_ms == float("inf")


def test_an_update_begins_the_time_to_live_anew(state: KeyedState) -> None:
    value = state.value("v", NUMBER, 100)
    state.now_ms = 1_000
    value.update((1,))
    state.now_ms = 1_050
    value.update((2,))
    state.now_ms = 1_100
    state.drop_expired()
    assert value.get() == (2,)
    state.now_ms = 1_150
    assert value.get() is None


def test_timers_are_registered_once_listed_in_order_and_deleted(state: KeyedState) -> None:
    for at_ms in (30, 10, 10, -5, 20):
        state.register_timer(at_ms)
    assert state.list_timers() == [-5, 10, 20, 30]
    state.delete_timer(20)
    state.delete_timer(99)
    assert [at_ms for at_ms, _, _ in state.due_timers(25)] == [-5, 10]


def test_a_timer_deleted_by_an_earlier_one_does_not_fire(state: KeyedState) -> None:
    state.register_timer(10)
    state.register_timer(20)
    fired = []
    for at_ms, _, _ in state.due_timers(30):
        fired.append(at_ms)
        state.delete_timer(20)
    assert fired == [10]


def test_forgetting_a_variable_removes_its_entries_of_all_keys_and_no_others(state: KeyedState) -> None:
    gone, kept = state.list("a", NUMBER), state.value("ab", NUMBER)
    for key in (b"1", b"2"):
        state.enter(2, key)
        gone.append([(1,)])
        kept.update((1,))
        state.register_timer(5)
    state.forget("a")
    state.forget("never declared")
    assert state.table.rows == 4
    assert [one.name for one in state.variables.all] == ["ab"]
