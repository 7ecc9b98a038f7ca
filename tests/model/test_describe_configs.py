"""What a broker answers DescribeConfigs: the settings in force, and where they come from."""

from __future__ import annotations

from kafkasim.model.broker.common.config_helper import described
from kafkasim.model.config import BrokerConfig
from kafkasim.model.controller.common.image import EVERY_BROKER, MetadataImage
from kafkasim.model.controller.common.records import BrokerConfigRecord, TopicRecord
from kafkasim.model.messages.clients.admin import TOPIC
from kafkasim.model.messages.clients.configs import OF_ALL_BROKERS, DescribeConfigsResource


def test_a_topic_has_what_all_brokers_were_told_last() -> None:
    """DynamicLogConfig.reconfigure: dynamic settings of brokers are the topics' defaults."""
    image = MetadataImage()
    image.apply(TopicRecord("orders", "t"), 0, 1)
    image.apply(BrokerConfigRecord(EVERY_BROKER, "log.retention.bytes", "100"), 1, 1)
    asked = DescribeConfigsResource(TOPIC, "orders", ("retention.bytes",))
    config = BrokerConfig.from_properties({"log.retention.bytes": 900})
    (found,) = described(asked, config, image, 1).configs
    assert (found.value, found.source) == ("100", OF_ALL_BROKERS)
