"""A service with a real Kafka client, against a cluster whose broker pauses."""

import time

from kafka import KafkaProducer


def test_no_order_is_lost_while_a_broker_pauses(kafka_cluster):
    producer = KafkaProducer(
        bootstrap_servers=kafka_cluster.bootstrap_servers, acks="all", enable_idempotence=True
    )
    with kafka_cluster.fault("gc-pause", node="broker-1", duration="30s"):
        sent = [producer.send("orders", b"order %d" % number) for number in range(100)]
        time.sleep(3)
    producer.flush()
    producer.close()
    assert all(order.succeeded() for order in sent)
    assert kafka_cluster.verdict().anomalies == []
