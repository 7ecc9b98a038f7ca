"""DescribeConfigs: settings of topics, brokers and groups, and where each has its value from."""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.model.messages.base import Message
from kafkasim.model.values import value

OF_TOPIC, OF_BROKER, OF_ALL_BROKERS, STATIC, DEFAULT, OF_GROUP = 1, 2, 3, 4, 5, 8
"""Where a value is from (DescribeConfigsResponse.ConfigSource)."""

BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7
"""Types of settings (DescribeConfigsResponse.ConfigType)."""


@value
class DescribeConfigsResource:
    """A resource whose settings are asked for."""

    resource_type: str  # TOPIC, BROKER or GROUP (``admin.py``); any other one is refused
    resource_name: str
    keys: tuple[str, ...] = ()  # (): all


@value
class DescribeConfigsRequest(Message):
    resources: tuple[DescribeConfigsResource, ...]


@value
class DescribedConfig:
    """A setting, as text; ``synonyms`` are (name, value, source), the one that counts first."""

    name: str
    value: str
    source: int
    synonyms: tuple[tuple[str, str, int], ...]
    type: int
    read_only: bool = False


@value
class DescribeConfigsResult:
    resource_type: str
    resource_name: str
    error: Errors
    message: str
    configs: tuple[DescribedConfig, ...] = ()


@value
class DescribeConfigsResponse(Message):
    results: tuple[DescribeConfigsResult, ...]
