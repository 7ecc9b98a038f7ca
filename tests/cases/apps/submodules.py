"""The modules in which aiokafka defines its names; its own examples import from them."""

import aiokafka
from aiokafka.abc import AbstractTokenProvider
from aiokafka.consumer import AIOKafkaConsumer
from aiokafka.consumer.consumer import AIOKafkaConsumer as OfConsumer
from aiokafka.partitioner import DefaultPartitioner, murmur2
from aiokafka.producer import AIOKafkaProducer
from aiokafka.producer.producer import AIOKafkaProducer as OfProducer


async def main():
    assert (aiokafka.AIOKafkaConsumer, aiokafka.AIOKafkaProducer) == (OfConsumer, OfProducer)
    assert (AIOKafkaConsumer, AIOKafkaProducer) == (OfConsumer, OfProducer)
    assert issubclass(aiokafka.AbstractTokenProvider, AbstractTokenProvider)
    assert aiokafka.__version__ > "0.10"
    assert DefaultPartitioner()(b"21", [0, 1, 2], [1]) == murmur2(b"21") % 3
    assert DefaultPartitioner()(None, [0, 1, 2], [1]) == 1
    told = ""
    try:
        __import__("aiokafka.conn")
    except Exception as error:
        told = str(error)
    assert "submodules.py:" in told, told
