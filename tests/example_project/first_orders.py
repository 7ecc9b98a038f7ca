"""A step of a topology: `{ process = "first_orders.py:FirstOrders", stores = "seen" }`."""

from kafkasim.model.streams.processors.context import Processor
from kafkasim.model.streams.records import StreamRecord


class FirstOrders(Processor):
    """Forwards the first order of each customer, and keeps in a store whom it has seen."""

    def process(self, record: StreamRecord) -> None:
        """Forward an order of a customer who is not in the store."""
        if self.context.store("seen").put_if_absent(record.key, record.timestamp) is None:
            self.context.forward(record)
