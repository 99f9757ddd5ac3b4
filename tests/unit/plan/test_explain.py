"""What explain() says."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.property import pipelines as p

from tidegate.model.ids import OperatorId
from tidegate.plan.explain import explain
from tidegate.plan.stages import build_graph


def test_explain_shows_plan_stages_channels_parallelism_and_guarantee() -> None:
    plan = p.windowed(Random(1)).plan
    graph = build_graph(plan, parallelism=3, max_parallelism=128)
    text = explain(plan, graph, {OperatorId("sink-0"): "exactly_once"})
    assert text.splitlines() == [
        "== Plan ==",
        "Sink sink-0 scripted append, guarantee exactly-once [w, k, n0, s0]",
        "+- Aggregate aggregate-0 append by [w, k] [count(*) AS n0, sum(v) AS s0], closed by watermark over w",
        "   +- Watermark watermark-0 ts - 5 s",
        "      +- Scan source-0 scripted [ts: timestamp, w: timestamp, k: bigint, v: bigint]",
        "",
        "== Stages == parallelism 3, key groups 128, 2 stages, 6 subtasks, 9 channels",
        "Stage 0 ×3",
        "    Scan source-0 scripted [ts: timestamp, w: timestamp, k: bigint, v: bigint]",
        "    Watermark watermark-0 ts - 5 s",
        "    PartialAggregate aggregate-0 by [w, k] [count(*) AS n0, sum(v) AS s0]",
        "Stage 1 ×3",
        "  ⇐ stage 0: keyed by [w, k], 9 channels",
        "    Aggregate aggregate-0 append by [w, k] [count(*) AS n0, sum(v) AS s0], closed by watermark over w",
        "    Sink sink-0 scripted append, guarantee exactly-once [w, k, n0, s0]",
    ]


def test_secrets_are_not_printed() -> None:
    plain = p.passing(Random(1)).plan
    plan = replace(plain, spec=replace(plain.spec, shown=(("path", "/data"), ("s3.secretAccessKey", "*****"))))
    text = explain(plan, build_graph(plan, parallelism=1, max_parallelism=1))
    assert "(path=/data, s3.secretAccessKey=*****)" in text
