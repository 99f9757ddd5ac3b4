"""Which stages get a dead-letter sink, and under which names."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.property import pipelines as p

from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.plan.dead_letters import LETTERS, is_dead_letter_id
from tidegate.plan.expressions import Column
from tidegate.plan.relational import Filter, MapBatches, Plan, PythonEval, PythonUdf, Sink, UdfKind
from tidegate.plan.stages import build_graph
from tidegate.testing.stand_ins import scripted_letters, scripted_sink, scripted_source


def mapped(plan: Plan, label: str) -> MapBatches:
    return MapBatches(
        kind=UdfKind.ARROW,
        label=label,
        command=b"",
        input_names=tuple(column.name for column in plan.schema),
        schema=plan.schema,
        output_names=tuple(column.name for column in plan.schema),
        inputs=(plan,),
    )


def evaluated(plan: Plan, label: str) -> PythonEval:
    udf = PythonUdf("u#5", label, b"", UdfKind.PYTHON, (Column("v#1", t.LONG),), t.LONG)
    return PythonEval(udfs=(udf,), schema=(*plan.schema, t.Field("u#5", t.LONG)), inputs=(plan,))


def two_stages(first: str, second: str) -> Sink:
    counted = p.count_and_sum(evaluated(p.scan(0, "#1"), first), ("k#1",), "u#5", number=0, window=None)
    return p.sink(mapped(counted, second))


def letters_of(plan: Sink, path: str = "/letters") -> dict[int, Sink]:
    graph = build_graph(plan, parallelism=2, max_parallelism=8, dead_letters=scripted_letters(path) if path else None)
    found = [(stage.id, node) for stage in graph.stages for node in stage.nodes if isinstance(node, Sink)]
    return {stage: node for stage, node in found if node.dead_letters}


def test_every_stage_with_user_functions_has_one_last_in_its_chain() -> None:
    graph = build_graph(
        two_stages("parse", "check"), parallelism=2, max_parallelism=8, dead_letters=scripted_letters("/letters")
    )
    assert [stage.nodes[-1].id for stage in graph.stages if isinstance(stage.nodes[-1], Sink)] == [
        "dead-letter-parse",
        "dead-letter-check",
    ]
    assert {sink.id for sink in graph.sinks()} == {"sink-0", "dead-letter-parse", "dead-letter-check"}
    assert {"dead-letter-parse", "dead-letter-check"} <= set(graph.stateful_ids())
    for sink in letters_of(two_stages("parse", "check")).values():
        assert (sink.format, sink.spec.place, sink.schema) == ("json", "/letters", LETTERS)
        assert is_dead_letter_id(sink.id)


def test_without_the_option_or_without_functions_there_is_none() -> None:
    assert letters_of(two_stages("parse", "check"), path="") == {}
    assert letters_of(p.sink(p.scan(0, "#1"))) == {}


def test_names_are_unique_and_do_not_depend_on_what_surrounds_the_function() -> None:
    assert [sink.id for sink in letters_of(two_stages("f", "f")).values()] == ["dead-letter-f", "dead-letter-f-2"]
    assert [sink.id for sink in letters_of(two_stages("<lambda>", "…")).values()] == [
        "dead-letter-lambda",
        "dead-letter-function",
    ]
    plain = p.scan(0, "#1")
    filtered = Filter(condition=Column("v#1", t.LONG), schema=plain.schema, inputs=(plain,))
    alone, behind = letters_of(p.sink(mapped(plain, "f"))), letters_of(p.sink(mapped(filtered, "f")))
    assert [sink.id for sink in alone.values()] == [sink.id for sink in behind.values()] == ["dead-letter-f"]


def test_a_directory_that_the_query_reads_or_writes_is_refused() -> None:
    read = replace(p.scan(0, "#1"), spec=scripted_source(place="/in"))
    sink = p.sink(mapped(read, "f"))
    written = replace(sink, spec=scripted_sink(sink.schema, place="/out"))
    for path in ("/in", "/out/"):
        with pytest.raises(InvalidQuery, match="deadLetter"):
            letters_of(written, path)
    assert len(letters_of(written, "/in/letters")) == 1
