package riparian.peer;

import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.MetadataCache;
import org.mockito.Mockito;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/**
 * What a @ClusterTest may ask of a broker object and the Admin client can answer: settings, topic metadata, port.
 * Anything else skips the test.
 */
public final class FakeBroker {
    static final Set<String> INTERNAL = Set.of("__consumer_offsets", "__transaction_state");

    private FakeBroker() { }

    private interface Call { Object call(String method, Object[] args) throws Exception; }

    @SuppressWarnings("unchecked")
    private static <T> T proxy(Class<T> type, String what, Call c) {
        return (T) Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (p, m, args) -> {
            switch (m.getName()) {
                case "toString": return what;
                case "hashCode": return System.identityHashCode(p);
                case "equals": return p == args[0];
                default: return c.call(m.getName(), args);
            }
        });
    }

    private static Object inside(String what) {
        External.skip("reaches inside the broker (" + what + ")");
        return null;
    }

    public static KafkaBroker broker(Map<String, String> wanted) {
        Properties p = new Properties();
        p.putAll(wanted);
        Map.of("process.roles", "broker,controller", "node.id", String.valueOf(External.nodes().iterator().next().id()),
            "controller.quorum.voters", External.nodes().iterator().next().id() + "@127.0.0.1:1",
            "listeners", "PLAINTEXT://" + External.bootstrap() + ",CONTROLLER://127.0.0.1:1",
            "controller.listener.names", "CONTROLLER", "log.dirs", System.getProperty("java.io.tmpdir")).forEach(p::put);
        // an existing internal topic counts as the one that a test wants
        for (Map.Entry<String, String> e : Map.of("__consumer_offsets", "offsets.topic", "__transaction_state", "transaction.state.log").entrySet()) {
            TopicDescription d = describe(e.getKey());
            p.put(e.getValue() + ".num.partitions", d == null ? "1" : "" + d.partitions().size());
            p.put(e.getValue() + ".replication.factor", d == null ? "1" : "" + d.partitions().get(0).replicas().size());
        }
        KafkaConfig config = new KafkaConfig(p);
        MetadataCache cache = cache();
        GroupCoordinator gc = proxy(GroupCoordinator.class, "group coordinator", (m, a) ->
            m.equals("groupMetadataTopicConfigs") ? new Properties() : inside("group coordinator: " + m));
        return proxy(KafkaBroker.class, "external broker", (m, a) -> {
            switch (m) {
                case "config": return config;
                case "metadataCache": return cache;
                case "groupCoordinator": return gc;
                case "boundPort": return External.nodes().iterator().next().port();
                case "isShutdown": return false;
                case "brokerState": return BrokerState.RUNNING;
                default: return inside(m);
            }
        });
    }

    private static MetadataCache cache() {
        return proxy(MetadataCache.class, "metadata", (m, a) -> {
            switch (m) {
                case "numPartitions": {
                    TopicDescription d = describe((String) a[0]);
                    if (d == null) return INTERNAL.contains(a[0]) ? Optional.of(1) : Optional.empty();
                    return Optional.of(d.partitions().size());
                }
                case "getLeaderAndIsr": {
                    TopicDescription d = describe((String) a[0]);
                    int p = (Integer) a[1];
                    if (d == null) return INTERNAL.contains(a[0]) ? Optional.of(new LeaderAndIsr(0, List.of(0))) : Optional.empty();
                    if (p >= d.partitions().size()) return Optional.empty();
                    TopicPartitionInfo i = d.partitions().get(p);
                    return i.leader() == null || i.leader().isEmpty() ? Optional.empty()
                        : Optional.of(new LeaderAndIsr(i.leader().id(), i.isr().stream().map(n -> n.id()).collect(Collectors.toList())));
                }
                case "getTopicId": {
                    TopicDescription d = describe((String) a[0]);
                    return d == null ? Uuid.ZERO_UUID : d.topicId();
                }
                case "getAllTopics": return ids().keySet();
                case "contains": return a[0] instanceof String ? describe((String) a[0]) != null : inside("metadata: contains");
                case "topicNamesToIds": return ids();
                case "topicIdsToNames": return ids().entrySet().stream().collect(Collectors.toMap(Map.Entry::getValue, Map.Entry::getKey));
                default: return inside("metadata: " + m);
            }
        });
    }

    /** Only good for finding topic ids. Its map shows no values, so that nobody waits for its log. */
    public static Map<Integer, ControllerServer> controllers() {
        Controller c = proxy(Controller.class, "controller", (m, a) ->
            m.equals("findAllTopicIds") ? CompletableFuture.completedFuture(ids()) : inside("controller: " + m));
        ControllerServer s = Mockito.mock(ControllerServer.class, inv ->
            inv.getMethod().getName().equals("controller") ? c : inside("controller: " + inv.getMethod().getName()));
        return new HashMap<>() {
            @Override public ControllerServer get(Object k) { return s; }
        };
    }

    private static Map<String, Uuid> ids() throws Exception {
        Set<String> names = External.admin().listTopics().names().get(20, TimeUnit.SECONDS);
        Map<String, Uuid> m = new HashMap<>();
        External.admin().describeTopics(names).allTopicNames().get(20, TimeUnit.SECONDS).forEach((n, d) -> m.put(n, d.topicId()));
        return m;
    }

    static TopicDescription describe(String topic) {
        try {
            return External.admin().describeTopics(List.of(topic)).allTopicNames().get(20, TimeUnit.SECONDS).get(topic);
        } catch (ExecutionException e) {
            if (e.getCause() instanceof UnknownTopicOrPartitionException) return null;
            throw new RuntimeException(e);
        } catch (Exception e) {
            throw new RuntimeException(e);
        }
    }

    /** An Admin client that says "done" when a test wants to create an internal topic that the server does not show. */
    public static Admin tolerant(Admin real) {
        return proxy(Admin.class, "admin", (m, a) -> {
            if (m.equals("createTopics") && a[0] instanceof Collection && ((Collection<?>) a[0]).size() == 1) {
                String n = ((NewTopic) ((Collection<?>) a[0]).iterator().next()).name();
                if (INTERNAL.contains(n) && describe(n) == null) {
                    External.wakeCoordinators(); // a server that keeps it as a topic makes it now, in its own size
                    if (describe(n) == null) External.note("server does not show " + n);
                    KafkaFuture<Void> done = KafkaFuture.completedFuture(null);
                    return Mockito.mock(CreateTopicsResult.class, inv -> {
                        switch (inv.getMethod().getName()) {
                            case "all": return done;
                            case "values": return Map.of(n, done);
                            case "topicId": return KafkaFuture.completedFuture(Uuid.ZERO_UUID);
                            default: return inside("createTopics: " + inv.getMethod().getName());
                        }
                    });
                }
            }
            try {
                for (var method : Admin.class.getMethods()) {
                    if (!method.getName().equals(m) || method.getParameterCount() != (a == null ? 0 : a.length)) continue;
                    boolean fits = true;
                    for (int i = 0; i < method.getParameterCount(); i++) {
                        Class<?> t = method.getParameterTypes()[i];
                        if (a[i] != null && !t.isPrimitive() && !t.isInstance(a[i])) fits = false;
                    }
                    if (!fits) continue;
                    Object r = method.invoke(real, a);
                    if (r instanceof CreateTopicsResult) {
                        // Kafka's own cluster waits until its brokers have taken in the new metadata; from outside only time helps
                        try { ((CreateTopicsResult) r).all().get(30, TimeUnit.SECONDS); } catch (Exception seenByTheCaller) { /* it asks r */ }
                        Thread.sleep(External.SETTLE_MS);
                    }
                    return r;
                }
                throw new IllegalStateException("no Admin." + m);
            } catch (InvocationTargetException e) {
                if (e.getCause() instanceof Exception) throw (Exception) e.getCause();
                throw new RuntimeException(e.getCause());
            }
        });
    }
}
