"""The broker process and its parts."""

from model.broker.broker import Broker
from model.broker.rules import BrokerRules

__all__ = ["Broker", "BrokerRules"]
