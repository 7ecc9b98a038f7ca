"""State stores in memory: what they hold, in which order they iterate, what they forget.

A store calls its ``log`` for each write, as ChangeLogging stores do; durability is the runtime's.
"""

from kafkasim.model.streams.stores.base import Log, Store, StoreContext
from kafkasim.model.streams.stores.cache import Cached, ThreadCache
from kafkasim.model.streams.stores.key_value import KeyValueStore
from kafkasim.model.streams.stores.lists import ListValueStore
from kafkasim.model.streams.stores.making import make_store
from kafkasim.model.streams.stores.sessions import SessionStore
from kafkasim.model.streams.stores.suppression import SuppressionBuffer
from kafkasim.model.streams.stores.windows import WindowStore

__all__ = [
    "Cached",
    "KeyValueStore",
    "ListValueStore",
    "Log",
    "SessionStore",
    "Store",
    "StoreContext",
    "SuppressionBuffer",
    "ThreadCache",
    "WindowStore",
    "make_store",
]
