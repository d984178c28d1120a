package org.apache.kafka.common.test.junit;

import riparian.peer.External;
import riparian.peer.FakeBroker;

import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.fault.FaultHandlerException;

import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.Collectors;

/**
 * Stands in for Kafka's class of the same name: what runs a @ClusterTest gets a cluster that is the external server
 * at -Dpeer.bootstrap. A test that reaches for the brokers' objects is skipped.
 */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private final String base;
    private final ClusterConfig config;
    private final boolean combined;

    public RaftClusterInvocationContext(String baseDisplayName, ClusterConfig clusterConfig, boolean isCombined) {
        base = baseDisplayName;
        config = clusterConfig;
        combined = isCombined;
        External.nodes(); // its threads exist before a test's leak check begins
    }

    static void waitForCondition(Supplier<Boolean> condition, String details) throws InterruptedException {
        for (long end = System.currentTimeMillis() + 15_000; System.currentTimeMillis() < end; Thread.sleep(100)) {
            if (condition.get()) return;
        }
        throw new AssertionError("Condition not met: " + details);
    }

    @Override
    public String getDisplayName(int i) {
        return base + " " + new TreeMap<>(config.serverProperties());
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        Instance instance = new Instance();
        return List.of(
            (BeforeEachCallback) c -> {
                // the two ways to lay out controllers are one and the same from outside
                if (!combined && config.clusterTypes().contains(Type.CO_KRAFT)) External.skip(External.DROP);
                if (config.isAutoStart()) instance.start();
            },
            (AfterTestExecutionCallback) c -> instance.stop(),
            new ClusterInstanceParameterResolver(instance));
    }

    private final class Instance implements ClusterInstance {
        private boolean started, stopped;

        public void start() {
            if (started) return;
            if (config.brokerSecurityProtocol() != SecurityProtocol.PLAINTEXT)
                External.skip("wants a " + config.brokerSecurityProtocol() + " listener");
            config.features().forEach((f, level) -> External.requireFeature(f.featureName(), level));
            External.clean();
            External.useKnownGroups = true;
            External.require(config.numBrokers(), config.serverProperties(), config.perServerOverrideProperties());
            started = true;
        }

        public void stop() {
            if (started && !stopped) External.clean();
            stopped = true;
        }

        public boolean started() { return started; }
        public boolean stopped() { return stopped; }
        public Type type() { return combined ? Type.CO_KRAFT : Type.KRAFT; }
        public ClusterConfig config() { return config; }
        public String bootstrapServers() { return External.bootstrap(); }
        public ListenerName clientListener() { return config.brokerListenerName(); }

        private <T> T inside(String what) {
            External.skip("reaches inside the broker (" + what + ")");
            return null;
        }

        public Map<Integer, KafkaBroker> brokers() {
            return Map.of(External.nodes().iterator().next().id(), FakeBroker.broker(config.serverProperties()));
        }

        public Map<Integer, KafkaBroker> aliveBrokers() { return brokers(); }
        public List<Integer> brokerBoundPorts() { return External.nodes().stream().map(Node::port).collect(Collectors.toList()); }
        public Map<Integer, ControllerServer> controllers() { return FakeBroker.controllers(); }
        public Set<Integer> controllerIds() { return brokerIds(); }

        public Admin admin(Map<String, Object> configs, boolean usingBootstrapControllers) {
            if (usingBootstrapControllers) inside("controller address");
            Map<String, Object> m = new HashMap<>(configs);
            m.putIfAbsent("bootstrap.servers", bootstrapServers());
            return FakeBroker.tolerant(Admin.create(m));
        }

        public Admin admin(Map<String, Object> configs) { return admin(configs, false); }
        public Admin admin() { return admin(Map.of(), false); }
        public ListenerName controllerListenerName() { return inside("controller listener"); }
        public String bootstrapControllers() { return inside("controller address"); }
        public void shutdownBroker(int id) { inside("stops a broker"); }
        public void startBroker(int id) { inside("starts a broker"); }
        public Optional<FaultHandlerException> firstFatalException() { return Optional.empty(); }
        public Optional<FaultHandlerException> firstNonFatalException() { return Optional.empty(); }

        public Set<Integer> brokerIds() { return External.nodes().stream().map(Node::id).collect(Collectors.toSet()); }

        public Set<GroupProtocol> supportedGroupProtocols() { return Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER); }

        public String clusterId() {
            try {
                return External.admin().describeCluster().clusterId().get(30, TimeUnit.SECONDS);
            } catch (Exception e) {
                throw new RuntimeException(e);
            }
        }

        public void waitForReadyBrokers() { External.nodes(); }
        public void ensureConsistentMetadata() { }

        public void createTopic(String topic, int partitions, short replicas, Map<String, String> props) throws InterruptedException {
            short rf = replicas;
            if (rf > External.nodes().size()) {
                rf = (short) External.nodes().size();
                External.note("replication " + replicas + " lowered to " + rf);
            }
            try {
                External.admin().createTopics(List.of(new NewTopic(topic, partitions, rf).configs(props))).all().get(30, TimeUnit.SECONDS);
            } catch (ExecutionException e) {
                if (e.getCause() instanceof RuntimeException) throw (RuntimeException) e.getCause();
                throw new RuntimeException(e);
            } catch (java.util.concurrent.TimeoutException e) {
                throw new RuntimeException(e);
            }
            waitTopicCreation(topic, partitions);
        }

        public void createTopic(String topic, int partitions, short replicas) throws InterruptedException {
            createTopic(topic, partitions, replicas, Map.of());
        }

        public void createTopicWithAssignment(String topic, Map<Integer, List<Integer>> assignment) throws InterruptedException {
            Set<Integer> ids = brokerIds();
            if (!ids.containsAll(assignment.values().stream().flatMap(List::stream).collect(Collectors.toSet())))
                External.skip("wants replicas on brokers " + assignment + ", there are " + ids);
            try {
                External.admin().createTopics(List.of(new NewTopic(topic, assignment))).all().get(30, TimeUnit.SECONDS);
            } catch (ExecutionException | java.util.concurrent.TimeoutException e) {
                throw new RuntimeException(e);
            }
            waitTopicCreation(topic, assignment.size());
        }

        public void deleteTopic(String topic) throws InterruptedException, ExecutionException {
            External.admin().deleteTopics(List.of(topic)).all().get();
            waitTopicDeletion(topic);
        }

        public void waitTopicDeletion(String topic) throws InterruptedException {
            RaftClusterInvocationContext.waitForCondition(() -> partitions(topic) == 0, topic + " was deleted but is still shown");
        }

        public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
            if (partitions <= 0) throw new IllegalArgumentException("Partition count must be > 0, but was " + partitions);
            RaftClusterInvocationContext.waitForCondition(() -> partitions(topic) == partitions, topic + " was created but is not shown with " + partitions + " led partitions");
            Thread.sleep(External.SETTLE_MS);
        }

        private int partitions(String topic) {
            try {
                return (int) External.admin().describeTopics(List.of(topic)).allTopicNames().get(15, TimeUnit.SECONDS).get(topic)
                    .partitions().stream().filter(p -> p.leader() != null && !p.leader().isEmpty()).count();
            } catch (ExecutionException e) {
                if (e.getCause() instanceof UnknownTopicOrPartitionException) return 0;
                throw new RuntimeException(e);
            } catch (Exception e) {
                throw new RuntimeException(e);
            }
        }

        public int getLeaderBrokerId(TopicPartition tp) throws ExecutionException, InterruptedException {
            return External.admin().describeTopics(List.of(tp.topic())).allTopicNames().get().get(tp.topic())
                .partitions().get(tp.partition()).leader().id();
        }
    }
}
