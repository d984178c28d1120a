package org.apache.kafka.streams.integration.utils;

import riparian.peer.External;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.server.util.MockTime;
import org.apache.kafka.test.TestUtils;

import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/**
 * Stands in for Kafka's class of the same name (it comes first on the class path): the same public methods,
 * but it starts no broker; it uses the external server at -Dpeer.bootstrap.
 */
public class EmbeddedKafkaCluster {
    public final MockTime time;
    private final int numBrokers;
    private final Map<String, String> wanted = new HashMap<>();
    private final Map<Integer, Map<String, String>> perBroker;

    public EmbeddedKafkaCluster(final int numBrokers) {
        this(numBrokers, new Properties());
    }

    public EmbeddedKafkaCluster(final int numBrokers, final Properties brokerConfig) {
        this(numBrokers, brokerConfig, Map.of());
    }

    public EmbeddedKafkaCluster(final int numBrokers, final Properties brokerConfig, final long mockTimeMillisStart) {
        this(numBrokers, brokerConfig, Map.of(), mockTimeMillisStart, System.nanoTime());
    }

    public EmbeddedKafkaCluster(final int numBrokers, final Properties brokerConfig,
                                final Map<Integer, Map<String, String>> brokerConfigOverrides) {
        this(numBrokers, brokerConfig, brokerConfigOverrides, System.currentTimeMillis(), System.nanoTime());
    }

    public EmbeddedKafkaCluster(final int numBrokers, final Properties brokerConfig,
                                final Map<Integer, Map<String, String>> brokerConfigOverrides,
                                final long mockTimeMillisStart, final long mockTimeNanoStart) {
        this.numBrokers = numBrokers;
        this.perBroker = brokerConfigOverrides;
        brokerConfig.forEach((k, v) -> wanted.put(String.valueOf(k), String.valueOf(v)));
        this.time = new MockTime(mockTimeMillisStart, mockTimeNanoStart);
    }

    public void start() {
        External.clean();
        External.require(numBrokers, wanted, perBroker);
    }

    public void verifyClusterReadiness() {
        External.nodes();
    }

    public void stop() {
        External.clean();
    }

    public String bootstrapServers() {
        return External.bootstrap();
    }

    public boolean sslEnabled() {
        return false;
    }

    public void createTopics(final String... topics) throws InterruptedException {
        for (final String t : topics) createTopic(t);
    }

    public void createTopic(final String topic) {
        createTopic(topic, 1, 1, Map.of());
    }

    public void createTopic(final String topic, final int partitions) {
        createTopic(topic, partitions, 1, Map.of());
    }

    public void createTopic(final String topic, final int partitions, final int replication) throws InterruptedException {
        createTopic(topic, partitions, replication, Map.of());
    }

    public void createTopic(final String topic, final int partitions, final int replication, final Map<String, String> topicConfig) {
        int rf = replication;
        if (rf > External.nodes().size()) {
            rf = External.nodes().size();
            External.note("replication " + replication + " lowered to " + rf);
        }
        try {
            External.admin().createTopics(List.of(new NewTopic(topic, partitions, (short) rf).configs(topicConfig))).all().get(30, TimeUnit.SECONDS);
        } catch (final ExecutionException e) {
            if (!(e.getCause() instanceof TopicExistsException)) throw new RuntimeException(e);
        } catch (final Exception e) {
            throw new RuntimeException(e);
        }
        try {
            TestUtils.waitForCondition(() -> getAllTopicsInCluster().contains(topic), 15_000L, "topic " + topic + " was created but is not listed");
        } catch (final InterruptedException e) {
            throw new RuntimeException(e);
        }
    }

    public void deleteTopics(final String... topics) {
        for (final String t : topics) deleteTopic(t);
    }

    public void deleteTopic(final String topic) {
        try {
            External.admin().deleteTopics(Set.of(topic)).all().get(30, TimeUnit.SECONDS);
        } catch (final ExecutionException e) {
            if (!(e.getCause() instanceof UnknownTopicOrPartitionException)) throw new RuntimeException(e);
        } catch (final Exception e) {
            throw new RuntimeException(e);
        }
    }

    public void deleteAllTopics() {
        try {
            External.deleteAllTopics();
        } catch (final Exception e) {
            throw new RuntimeException(e);
        }
    }

    public void produce(final Map<String, Object> producerProps, final String topic, final Integer partition, final String key, final String value) {
        try (KafkaProducer<byte[], byte[]> p = new KafkaProducer<>(producerProps, new ByteArraySerializer(), new ByteArraySerializer())) {
            p.send(new ProducerRecord<>(topic, partition, key == null ? null : key.getBytes(), value == null ? null : value.getBytes()))
                .get(120, TimeUnit.SECONDS);
        } catch (final Exception e) {
            throw new RuntimeException(e);
        }
    }

    public Admin createAdminClient() {
        return Admin.create(new HashMap<>(clientDefaultConfig()));
    }

    public Map<String, String> clientDefaultConfig() {
        final Map<String, String> m = new HashMap<>();
        m.put("bootstrap.servers", bootstrapServers());
        return m;
    }

    public KafkaConsumer<byte[], byte[]> createConsumer(final Map<String, Object> consumerProps) {
        final Map<String, Object> m = new HashMap<>(clientDefaultConfig());
        m.put("group.id", UUID.randomUUID().toString());
        m.put("enable.auto.commit", "false");
        m.put("auto.offset.reset", "earliest");
        m.put("key.deserializer", ByteArrayDeserializer.class.getName());
        m.put("value.deserializer", ByteArrayDeserializer.class.getName());
        m.putAll(consumerProps);
        return new KafkaConsumer<>(m);
    }

    public KafkaConsumer<byte[], byte[]> createConsumerAndSubscribeTo(final Map<String, Object> consumerProps, final String... topics) {
        return createConsumerAndSubscribeTo(consumerProps, null, topics);
    }

    public KafkaConsumer<byte[], byte[]> createConsumerAndSubscribeTo(final Map<String, Object> consumerProps,
                                                                      final ConsumerRebalanceListener listener, final String... topics) {
        final KafkaConsumer<byte[], byte[]> c = createConsumer(consumerProps);
        if (listener == null) c.subscribe(Arrays.asList(topics)); else c.subscribe(Arrays.asList(topics), listener);
        return c;
    }

    public void waitForRemainingTopics(final long timeoutMs, final String... topics) throws InterruptedException {
        final Set<String> expected = Set.of(topics);
        TestUtils.waitForCondition(() -> getAllTopicsInCluster().equals(expected), timeoutMs, "topics are not " + expected);
    }

    public Set<String> getAllTopicsInCluster() {
        try {
            return External.admin().listTopics(new ListTopicsOptions().listInternal(true)).names().get(30, TimeUnit.SECONDS);
        } catch (final Exception e) {
            throw new RuntimeException(e);
        }
    }

    public Properties getLogConfig(final String topic) {
        final ConfigResource r = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        final Properties p = new Properties();
        try {
            for (final ConfigEntry e : External.admin().describeConfigs(Set.of(r)).all().get(30, TimeUnit.SECONDS).get(r).entries()) {
                if (e.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG) p.put(e.name(), e.value());
            }
        } catch (final Exception e) {
            throw new RuntimeException(e);
        }
        return p;
    }

    public void setGroupSessionTimeout(final String groupId, final int sessionTimeoutMs) {
        External.setGroupConfig(groupId, "streams.session.timeout.ms", String.valueOf(sessionTimeoutMs));
    }

    public void setGroupHeartbeatTimeout(final String groupId, final int heartbeatTimeoutMs) {
        External.setGroupConfig(groupId, "streams.heartbeat.interval.ms", String.valueOf(heartbeatTimeoutMs));
    }

    public void setGroupStandbyReplicas(final String groupId, final int numStandbyReplicas) {
        External.setGroupConfig(groupId, "streams.num.standby.replicas", String.valueOf(numStandbyReplicas));
    }

    public void setGroupStreamsInitialRebalanceDelay(final String groupId, final int initialRebalanceDelayMs) {
        External.setGroupConfig(groupId, "streams.initial.rebalance.delay.ms", String.valueOf(initialRebalanceDelayMs));
    }
}
