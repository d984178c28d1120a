"""Produces and consumes with confluent-kafka: assign() with explicit offsets, headers, keys, a topic of its own.

Usage: assign.py BOOTSTRAP. Prints "all right", or raises.
"""

import sys

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC = "python"
LIMIT_S = 20.0


def expect(what, got, wanted):
    if got != wanted:
        raise AssertionError(f"{what}: {got!r}, expected {wanted!r}")


def main(bootstrap):
    config = {"bootstrap.servers": bootstrap}
    admin = AdminClient(config)
    admin.create_topics([NewTopic(TOPIC, num_partitions=2, replication_factor=1)])[TOPIC].result(LIMIT_S)

    reports = []
    producer = Producer(config | {"enable.idempotence": True, "linger.ms": 5, "compression.type": "zstd"})
    for n in range(200):
        producer.produce(
            TOPIC,
            value=f"value {n}",
            key=f"key {n}",
            partition=n % 2,
            headers={"number": str(n)},
            on_delivery=lambda error, message: reports.append((error, message.partition(), message.offset())),
        )
    expect("undelivered records", producer.flush(LIMIT_S), 0)
    expect("failed records", [error for error, _, _ in reports if error], [])
    expect("offsets", sorted(report[1:] for report in reports), [(p, o) for p in range(2) for o in range(100)])

    # A group id is demanded by the library; nothing joins a group.
    consumer = Consumer(config | {"group.id": "unused", "enable.auto.commit": False})
    low_high = [consumer.get_watermark_offsets(TopicPartition(TOPIC, p), timeout=LIMIT_S) for p in range(2)]
    expect("watermarks", low_high, [(0, 100), (0, 100)])
    consumer.assign([TopicPartition(TOPIC, 0, 90), TopicPartition(TOPIC, 1, 0)])
    got = {0: [], 1: []}
    while len(got[0]) < 10 or len(got[1]) < 100:
        message = consumer.poll(LIMIT_S)
        if message is None:
            raise AssertionError(f"only {len(got[0])} and {len(got[1])} records came")
        if message.error():
            raise KafkaException(message.error())
        got[message.partition()].append((message.offset(), message.key(), message.value(), message.headers()))
    for partition, first in ((0, 90), (1, 0)):
        wanted = [
            (offset, f"key {n}".encode(), f"value {n}".encode(), [("number", str(n).encode())])
            for offset in range(first, 100)
            for n in [2 * offset + partition]
        ]
        expect(f"records of partition {partition}", got[partition], wanted)
    consumer.close()
    print("all right")


if __name__ == "__main__":
    main(sys.argv[1])
