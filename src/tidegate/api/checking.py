"""``check()``: what ``start()`` would refuse, asked without starting, making or writing anything."""

from __future__ import annotations

from functools import partial

from tidegate.api.location import check_location
from tidegate.api.preflight import checking_sources, refuse_unrestorable
from tidegate.api.preparing import check_pipeline, choose_location, new_document, parse_start_from
from tidegate.api.requests import PipelineRequest
from tidegate.api.structured_streaming import refuse_structured_streaming
from tidegate.checkpoint.plan import plan_of
from tidegate.connectors.home import RealConnectors
from tidegate.storage.open import is_missing, open_store
from tidegate.storage.output_directory import open_directory


def check_unstarted(pipeline: PipelineRequest) -> None:
    """Raises what a start would refuse, except for what only targets could tell: the query itself, and what it would go on from, which is
    its location or, for a new one, what ``startFrom`` names."""
    checked = check_pipeline(pipeline)
    options, config, storage = pipeline.options, checked.config, checked.storage
    location, temporary = choose_location(pipeline.name, options, pipeline.session, make=False)
    store = None if temporary or is_missing(location) else open_store(location, storage, make=False)
    if store is not None:
        refuse_structured_streaming(store, location)
    connectors = RealConnectors(config, partial(open_directory, options=storage))
    check_sources = checking_sources(checked.graph, connectors)
    identity = check_location(
        store,
        location or "the checkpoint location",
        new_document(pipeline, config),
        lambda name: plan_of(checked.graph, name, config),
        parse_start_from(options, storage),
        check_sources,
    )
    if store is not None and identity is not None:
        refuse_unrestorable(
            plan_of(checked.graph, identity.pipeline, config),
            store,
            accept_duplicates=options.accept_duplicates,
            check_sources=check_sources,
        )
