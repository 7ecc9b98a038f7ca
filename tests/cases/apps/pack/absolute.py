"""The application is in a package beside this file."""

import shop.settings
from shop import worker
from shop.worker import main

assert (shop.worker, worker.TOPIC) == (worker, shop.settings.TOPIC)
assert worker.main is main
