"""The broker process, in KRaft mode and in ZooKeeper mode, and the parts both have."""

from kafkasim.model.broker.kraft.broker import Broker
from kafkasim.model.broker.rules import BrokerRules

__all__ = ["Broker", "BrokerRules"]
