package riparian;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A consumer without a group that reads all partitions of a topic from their beginning. */
final class Assigned implements AutoCloseable {
    private final KafkaConsumer<String, String> consumer;
    private final List<TopicPartition> partitions;

    Assigned(Options options, String topic) {
        Properties config = new Properties();
        config.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, options.text("bootstrap"));
        config.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class);
        config.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class);
        config.put(ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, "false");
        options.applySettings(config);
        consumer = new KafkaConsumer<>(config);
        partitions = consumer.partitionsFor(topic).stream()
                .map(info -> new TopicPartition(topic, info.partition()))
                .collect(Collectors.toList());
        consumer.assign(partitions);
        consumer.seekToBeginning(partitions);
    }

    int partitions() {
        return partitions.size();
    }

    Iterable<ConsumerRecord<String, String>> poll() {
        return consumer.poll(Duration.ofMillis(200));
    }

    /** Whether everything that was there when the ends were asked for has been read. */
    boolean reached(Map<TopicPartition, Long> ends) {
        return partitions.stream().allMatch(it -> consumer.position(it) >= ends.get(it));
    }

    Map<TopicPartition, Long> ends() {
        return consumer.endOffsets(partitions);
    }

    @Override
    public void close() {
        consumer.close();
    }
}
