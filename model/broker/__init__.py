"""The broker process and its parts."""

from kafkasim.model.broker.kraft.broker import Broker
from kafkasim.model.broker.rules import BrokerRules

__all__ = ["Broker", "BrokerRules"]
