"""A consumer with a group, with confluent-kafka: says what it is assigned and what it gets.

Usage: group.py BOOTSTRAP GROUP TOPIC [key=value ...]. Settings of the library; commits by itself. Prints one plain line
for each change: `has 0 1 ...` (all partitions that it has now), `got PARTITION OFFSET VALUE`, `lost`, `error TEXT`, and
`closed` after SIGTERM.
"""

import signal
import sys

from confluent_kafka import Consumer

ends = False


def say(line):
    print(line, flush=True)


def main(bootstrap, group, topic, *settings):
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 200,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 500,
    } | dict(setting.split("=", 1) for setting in settings)
    is_cooperative = config.get("partition.assignment.strategy") == "cooperative-sticky"
    consumer = Consumer(config)
    has = set()

    def tell():
        say(" ".join(["has", *map(str, sorted(has))]))

    def on_assign(consumer, partitions):
        if is_cooperative:
            consumer.incremental_assign(partitions)
        else:
            consumer.assign(partitions)
            has.clear()
        has.update(partition.partition for partition in partitions)
        tell()

    def on_revoke(consumer, partitions):
        if is_cooperative:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()
        has.difference_update(partition.partition for partition in partitions)
        tell()

    def on_lost(consumer, partitions):
        say("lost")
        on_revoke(consumer, partitions)

    def end(*_):
        global ends
        ends = True

    signal.signal(signal.SIGTERM, end)
    consumer.subscribe([topic], on_assign=on_assign, on_revoke=on_revoke, on_lost=on_lost)
    while not ends:
        message = consumer.poll(0.1)
        if message is None:
            continue
        if message.error():
            say(f"error {message.error()}")
        else:
            say(f"got {message.partition()} {message.offset()} {message.value().decode()}")
    consumer.close()
    say("closed")


if __name__ == "__main__":
    main(*sys.argv[1:])
