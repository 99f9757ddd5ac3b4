"""A checkpoint directory of Structured Streaming on every kind of store."""

from __future__ import annotations

import pytest
from tests.integration.stores.conftest import Home

from tidegate.api.structured_streaming import refuse_structured_streaming
from tidegate.model.errors import InvalidQuery


def test_sparks_own_checkpoint_directory_is_refused_on_every_store(home: Home) -> None:
    """T74"""
    store = home.open()
    refuse_structured_streaming(store, home.location)
    store.create("metadata", b'{"id":"dd4c7a5b-6a8c-4a6b-bd0c-7b3a1c5f1c7e"}')
    with pytest.raises(InvalidQuery, match="Structured Streaming: it holds its file metadata"):
        refuse_structured_streaming(store, home.location)
    store.create("offsets/7", b"v1")
    with pytest.raises(InvalidQuery, match="Structured Streaming: it holds its progress up to batch 7"):
        refuse_structured_streaming(store, home.location)
    assert store.list("") == ("metadata", "offsets/7")
