"""From the queries of a job to its pipelines: what they share, and which options hold for whom."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial

from tidegate.api.foreach_batch import refuse_starvation
from tidegate.api.launch import check_request, fingerprint_of, read_request, reread
from tidegate.api.regrouping import Group, refuse_regrouped
from tidegate.api.requests import PipelineRequest, QueryRequest
from tidegate.api.session_settings import session_storage
from tidegate.api.settings import QueryOptions, sort_options
from tidegate.api.structured_streaming import refuse_structured_streaming
from tidegate.api.triggers import Trigger
from tidegate.catalyst.naming import Names
from tidegate.catalyst.together import Component, together
from tidegate.catalyst.translate import Translation
from tidegate.model.errors import InvalidQuery
from tidegate.plan.identity import pin_all
from tidegate.spark.checks import is_one_host, slots_for_queries, task_slots
from tidegate.storage.open import absolute_path, is_missing, open_store

_SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.=-]*")
_PER_PIPELINE = ("checkpointlocation", "startfrom")
"""Options that name a directory: of a job, one with a directory per pipeline beneath it."""


def joint_pipelines(
    requests: Sequence[QueryRequest], job: Mapping[str, object], trigger: Trigger
) -> list[PipelineRequest]:
    """``job``, ``trigger``: the job's own options, for every query that does not say another. Raises InvalidQuery."""
    named = [replace(request, query=_name(request, number)) for number, request in enumerate(requests)]
    _refuse_twice("name", [request.query for request in named], "queryName")
    common = {_key(name): value for name, value in job.items()}
    own = [frozenset(map(_key, request.options)) for request in named]
    complete = [
        replace(request, options={**request.options, **{n: v for n, v in job.items() if _key(n) not in said}})
        for request, said in zip(named, own, strict=True)
    ]
    options = [sort_options(request.options) for request in complete]
    for request, sorted_options in zip(complete, options, strict=True):
        check_request(request, sorted_options)
    names = Names()
    found = [read_request(*both, names) for both in zip(complete, options, strict=True)]
    pipelines = [
        _pipeline(component, complete, options, found, common, own, trigger)
        for component in together([one.plan for one in found])
    ]
    locations = [one.options.checkpoint_location for one in pipelines]
    _refuse_twice("checkpoint location", [absolute_path(one) for one in locations if one], "option checkpointLocation")
    root = common.get("checkpointlocation")
    groups = list(map(_group, pipelines))
    if root is not None and not is_missing(str(root)):
        # Directories beneath it are empty, and the query that Spark has run with it may be one of these.
        refuse_structured_streaming(groups[0].open(str(root)), str(root))
    refuse_regrouped(groups, None if root is None else str(root))
    shared = _share_slots(pipelines)
    _refuse_crowd(shared)
    return shared


def _pipeline(
    component: Component,
    requests: Sequence[QueryRequest],
    options: Sequence[QueryOptions],
    found: Sequence[Translation],
    common: Mapping[str, object],
    own: Sequence[frozenset[str]],
    trigger: Trigger,
) -> PipelineRequest:
    members = component.positions
    first = requests[members[0]]
    whole = _agreed([(requests[at].query, options[at]) for at in members])
    for option in _PER_PIPELINE:
        if option in common and not any(option in own[at] for at in members):
            directory = f"{str(common[option]).rstrip('/')}/{first.query}"
            field = "checkpoint_location" if option == "checkpointlocation" else "start_from"
            whole = replace(whole, **{field: directory})
    return PipelineRequest(
        requests=tuple(requests[at] for at in members),
        options=whole,
        trigger=_agreed_trigger([(requests[at].query, requests[at].trigger) for at in members], trigger),
        name=first.query,
        plans=component.plans,
        fingerprint=fingerprint_of([found[at] for at in members]),
        reread=partial(reread, requests, options, members),
    )


def _group(pipeline: PipelineRequest) -> Group:
    plans = pin_all(pipeline.plans, pipeline.options.uids)
    storage = pipeline.options.storage.over(session_storage(pipeline.session))
    return Group(
        tuple(request.query for request in pipeline.requests),
        tuple(plan.id for plan in plans),
        pipeline.options.checkpoint_location or "",
        partial(open_store, options=storage, make=False),
    )


def _agreed(members: Sequence[tuple[str, QueryOptions]]) -> QueryOptions:
    """One set of options for queries that share a source, and so everything that is decided for a pipeline as a whole."""
    first, whole = members[0]
    config, uids = dict(whole.config), dict(whole.uids)
    for query, options in members[1:]:
        for name, value in options.config.items():
            if config.setdefault(name, value) != value:
                raise _contradiction(first, query, f"{name} {config[name]} and {value}")
        for operator, uid in options.uids.items():
            if uids.setdefault(operator, uid) != uid:
                raise _contradiction(first, query, f"uid.{operator} {uids[operator]} and {uid}")
        for one in fields(QueryOptions):
            if one.name in ("config", "uids", "sink"):
                continue
            was, now = getattr(whole, one.name), getattr(options, one.name)
            if was and now and was != now:
                raise _contradiction(first, query, f"{one.name} {was} and {now}")
            whole = replace(whole, **{one.name: was or now})
    return replace(whole, config=config, uids=uids)


def _agreed_trigger(members: Sequence[tuple[str, Trigger]], job: Trigger) -> Trigger:
    interval_ms: int | None = None
    first = members[0][0]
    for query, trigger in members:
        if trigger.checkpoint_interval_ms is None:
            continue
        if interval_ms not in (None, trigger.checkpoint_interval_ms):
            raise _contradiction(
                first, query, f"trigger(checkpoint=…) {interval_ms} and {trigger.checkpoint_interval_ms} ms"
            )
        interval_ms = trigger.checkpoint_interval_ms
    endings = {trigger.available_now or job.available_now for _, trigger in members}
    if len(endings) > 1:
        raise _contradiction(first, members[-1][0], "trigger(availableNow=True) and a trigger without end")
    return Trigger(interval_ms if interval_ms is not None else job.checkpoint_interval_ms, endings.pop())


def _contradiction(one: str, other: str, what: str) -> InvalidQuery:
    return InvalidQuery(
        f"the queries {one!r} and {other!r} share a source, and so one pipeline, but ask for {what}",
        hint="set it on the job: Job(...).option(...), or in the same way on both",
    )


def _key(option: str) -> str:
    return option.lower().removeprefix("tidegate.")


def _name(request: QueryRequest, number: int) -> str:
    return request.name if request.name and _SAFE_NAME.fullmatch(request.name) else f"query-{number}"


def _refuse_twice(what: str, values: Sequence[str], option: str) -> None:
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise InvalidQuery(f"two queries of the job have the {what} {twice[0]!r}", hint=f"give each its own: {option}")


def _share_slots(pipelines: list[PipelineRequest]) -> list[PipelineRequest]:
    """The same, with a parallelism for those that do not say one: equal shares of what the others leave."""
    said = [one.options.config.get("parallelism") for one in pipelines]
    open_ones = said.count(None)
    if not open_ones:
        return pipelines
    spare = any(one.spare for one in pipelines)
    left = slots_for_queries(pipelines[0].session, spare=spare) - sum(int(str(one)) for one in said if one is not None)
    if left < open_ones:
        raise InvalidQuery(
            f"the job has {len(pipelines)} pipelines, and Spark has no task slot left for {open_ones - max(0, left)} of them",
            hint="give Spark more cores, or set option parallelism of the others lower: all slots run at the same time",
        )
    return [
        pipeline if one is not None else _with_parallelism(pipeline, left // open_ones)
        for pipeline, one in zip(pipelines, said, strict=True)
    ]


def _with_parallelism(pipeline: PipelineRequest, parallelism: int) -> PipelineRequest:
    options = replace(pipeline.options, config={**pipeline.options.config, "parallelism": parallelism})
    return replace(pipeline, options=options)


def _refuse_crowd(pipelines: list[PipelineRequest]) -> None:
    """Raises InvalidQuery when a local session has too few task slots; executors of a cluster may still be on their way."""
    session = pipelines[0].session
    wanted = [int(str(one.options.config["parallelism"])) for one in pipelines]
    available = task_slots(session)
    if sum(wanted) > available and is_one_host(session):
        raise InvalidQuery(
            f"the pipelines of the job ask for {' + '.join(map(str, wanted))} slots, and "
            f"{session.sparkContext.master} can run {available} tasks at once",
            hint="lower option parallelism of some, or give Spark more cores: all slots run at the same time",
        )
    if any(one.calls_functions for one in pipelines):
        refuse_starvation(session, sum(wanted))
