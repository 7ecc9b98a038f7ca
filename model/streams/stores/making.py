"""Make the stores of a task from their specs (StoreFactory.builder)."""

from __future__ import annotations

from typing import Any

from kafkasim.model.streams.stores.base import Store, StoreContext
from kafkasim.model.streams.stores.cache import (
    Cached,
    CachingKeyValueStore,
    CachingSessionStore,
    CachingWindowStore,
    ThreadCache,
)
from kafkasim.model.streams.stores.key_value import KeyValueStore
from kafkasim.model.streams.stores.lists import ListValueStore
from kafkasim.model.streams.stores.sessions import SessionStore
from kafkasim.model.streams.stores.suppression import SuppressionBuffer
from kafkasim.model.streams.stores.windows import WindowStore
from kafkasim.model.streams.topology.nodes import StoreKind, StoreSpec

STORES: dict[StoreKind, type[Store]] = {
    StoreKind.KEY_VALUE: KeyValueStore,
    StoreKind.PLAIN: KeyValueStore,
    StoreKind.WINDOW: WindowStore,
    StoreKind.SESSION: SessionStore,
    StoreKind.JOIN_WINDOW: WindowStore,
    StoreKind.OUTER_JOIN: ListValueStore,
    StoreKind.SUPPRESSION: SuppressionBuffer,
}

CACHES: dict[StoreKind, type[Cached]] = {
    StoreKind.KEY_VALUE: CachingKeyValueStore,
    StoreKind.PLAIN: CachingKeyValueStore,
    StoreKind.WINDOW: CachingWindowStore,
    StoreKind.SESSION: CachingSessionStore,
}


def make_store(
    spec: StoreSpec, context: StoreContext, cache: ThreadCache | None
) -> tuple[Store, Any]:
    """Return a store, and what processors see of it: itself, or a cache over it.

    Without a cache of the thread (statestore.cache.max.bytes = 0) no store is cached.
    """
    store = STORES[spec.kind](spec, context)
    if cache is None or not spec.cached:
        return store, store
    return store, CACHES[spec.kind](store, cache, context)
