package riparian.peer;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.ShareMemberDescription;
import org.apache.kafka.clients.admin.StreamsGroupMemberDescription;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatRequestData;
import org.apache.kafka.common.message.DescribeGroupsRequestData;
import org.apache.kafka.common.message.LeaveGroupRequestData.MemberIdentity;
import org.apache.kafka.common.message.ShareGroupHeartbeatRequestData;
import org.apache.kafka.common.message.StreamsGroupHeartbeatRequestData;
import org.apache.kafka.common.requests.ConsumerGroupHeartbeatRequest;
import org.apache.kafka.common.requests.DescribeGroupsRequest;
import org.apache.kafka.common.requests.DescribeGroupsResponse;
import org.apache.kafka.common.requests.LeaveGroupRequest;
import org.apache.kafka.common.requests.ShareGroupHeartbeatRequest;
import org.apache.kafka.common.requests.StreamsGroupHeartbeatRequest;
import org.apache.kafka.server.IntegrationTestUtils;
import org.opentest4j.TestAbortedException;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The one external server under test: its address, what it offers, and cleaning it between tests. */
public final class External {
    public static final String BOOTSTRAP = System.getProperty("peer.bootstrap", "");

    /** For a coordinator to see topics that the metadata already show. */
    public static final long SETTLE_MS = Long.getLong("peer.settle.ms", 400L);

    /** The reason of a skip that deserves no line in the table. */
    public static final String DROP = "same as the other layout";

    /** Broker settings that change nothing a test could see on one external server. */
    private static final Set<String> IRRELEVANT = Set.of(
        "log.cleaner.dedupe.buffer.size", "offsets.topic.num.partitions", "offsets.topic.replication.factor",
        "transaction.state.log.num.partitions", "transaction.state.log.replication.factor", "transaction.state.log.min.isr",
        "share.coordinator.state.topic.num.partitions", "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.min.isr", "default.replication.factor", "min.insync.replicas",
        "log.flush.interval.messages", "num.io.threads", "queued.max.requests");
    /** Settings only listed as wanted: the test is still worth running when the server differs. */
    private static final Set<String> SOFT = Set.of(
        "transaction.max.timeout.ms", "delete.topic.enable", "log.retention.check.interval.ms", "log.initial.task.delay.ms",
        "log.retention.hours", "log.retention.bytes", "group.max.session.timeout.ms", "group.min.session.timeout.ms",
        "group.initial.rebalance.delay.ms", "group.streams.assignment.interval.ms", "group.consumer.assignment.interval.ms",
        "group.streams.min.session.timeout.ms", "group.streams.min.heartbeat.interval.ms",
        "group.consumer.min.session.timeout.ms", "group.consumer.min.heartbeat.interval.ms",
        "group.share.min.session.timeout.ms", "group.share.min.heartbeat.interval.ms");
    /** Broker settings that exist as settings of one group as well. */
    private static final Pattern PER_GROUP = Pattern.compile(
        "group\\.((streams|consumer|share)\\.(session\\.timeout\\.ms|heartbeat\\.interval\\.ms)|streams\\.(initial\\.rebalance\\.delay\\.ms|num\\.standby\\.replicas))");
    /** The group names that Kafka's @ClusterTests use; only for these can a broker setting become a group setting. */
    private static final List<String> KNOWN_GROUPS = List.of("grp", "group", "test-group", "test-fenced-rejoin-group",
        "grp-0", "grp-1", "grp-2", "grp-3", "grp-4", "grp-5", "grp-6", "group-id", "my-group");
    public static boolean useKnownGroups;

    private static final Set<String> NOTES = new LinkedHashSet<>();
    private static final Map<String, String> CHANGED = new LinkedHashMap<>();
    private static final Map<String, Set<String>> GROUPS_CONFIGURED = new LinkedHashMap<>();
    private static Admin admin;
    private static Collection<Node> nodes;

    private External() { }

    public static synchronized String bootstrap() {
        if (BOOTSTRAP.isEmpty()) throw new IllegalStateException("set -Dpeer.bootstrap=HOST:PORT");
        return BOOTSTRAP;
    }

    public static synchronized Admin admin() {
        if (admin == null) {
            admin = Admin.create(Map.of("bootstrap.servers", bootstrap(), "client.id", "peer-suite-shim",
                "request.timeout.ms", "15000", "default.api.timeout.ms", "30000"));
        }
        return admin;
    }

    public static synchronized Collection<Node> nodes() {
        if (nodes == null) {
            try {
                nodes = admin().describeCluster().nodes().get(30, TimeUnit.SECONDS);
            } catch (Exception e) {
                throw new IllegalStateException("external server " + BOOTSTRAP + " does not answer describeCluster: " + e, e);
            }
        }
        return nodes;
    }

    /** A remark that the result table shows beside the running test. */
    public static synchronized void note(String s) { NOTES.add(s); }

    public static synchronized String takeNotes() {
        String s = String.join("; ", NOTES);
        NOTES.clear();
        return s;
    }

    public static void skip(String why) { throw new TestAbortedException("peer-suite: " + why); }

    /** Let the server make the internal topics of its coordinators, as a first client would. */
    public static void wakeCoordinators() {
        quiet("find a group coordinator", () -> {
            try {
                admin().describeConsumerGroups(List.of("peer-suite")).all().get(20, TimeUnit.SECONDS);
            } catch (ExecutionException noSuchGroup) { /* as expected */ }
        });
        quiet("find a transaction coordinator", () -> {
            try {
                admin().describeTransactions(List.of("peer-suite")).all().get(20, TimeUnit.SECONDS);
            } catch (ExecutionException noSuchTransaction) { /* as expected */ }
        });
    }

    public static void requireFeature(String name, short level) {
        try {
            var f = admin().describeFeatures().featureMetadata().get(20, TimeUnit.SECONDS).finalizedFeatures().get(name);
            int is = f == null ? 0 : f.maxVersionLevel();
            if (is != level) skip("wants feature " + name + "=" + level + ", server has " + is);
        } catch (TestAbortedException e) {
            throw e;
        } catch (Exception e) {
            skip("wants feature " + name + "=" + level + ", server does not tell (" + brief(e) + ")");
        }
    }

    /** Offer what a test wants of its broker, or skip it with the reason. */
    public static void require(int brokers, Map<String, String> wanted, Map<Integer, Map<String, String>> perBroker) {
        int have = nodes().size();
        if (!perBroker.isEmpty() && perBroker.values().stream().anyMatch(m -> !m.isEmpty()))
            skip("wants per-broker settings " + perBroker);
        if (brokers > have) note("wants " + brokers + " brokers, has " + have);
        Map<String, String> ask = new LinkedHashMap<>();
        wanted.forEach((k, v) -> { if (!IRRELEVANT.contains(k)) ask.put(k, v); });
        if (ask.isEmpty()) return;
        final Map<String, String> actual;
        try {
            actual = brokerConfig();
        } catch (Exception e) {
            note("broker settings unknown (" + brief(e) + "), wanted " + ask);
            return;
        }
        Map<String, String> perGroup = new LinkedHashMap<>();
        if (useKnownGroups) {
            ask.forEach((k, v) -> {
                Matcher m = PER_GROUP.matcher(k);
                if (m.matches() && !v.equals(actual.get(k))) perGroup.put(m.group(1), v);
            });
        }
        if (!perGroup.isEmpty()) {
            try {
                for (String g : KNOWN_GROUPS) setGroupConfigs(g, perGroup);
                note("per group: " + perGroup);
            } catch (RuntimeException no) {
                note("no group settings " + perGroup + ": " + brief(no.getCause()));
                perGroup.clear();
            }
        }
        for (Map.Entry<String, String> e : ask.entrySet()) {
            String k = e.getKey(), v = e.getValue(), is = actual.get(k);
            if (k.startsWith("group.") && perGroup.containsKey(k.substring(6))) continue;
            if (k.equals("listener.security.protocol.map") || k.startsWith("ssl.") || k.startsWith("sasl."))
                skip("wants security settings (" + k + ")");
            if (k.equals("metric.reporters") || k.endsWith(".class") || k.endsWith(".class.name"))
                skip("wants a plug-in inside the broker (" + k + "=" + v + ")");
            if (v.equals(is)) continue;
            if (is == null) { note("server does not show " + k + ", wanted " + v); continue; }
            String refused = alterBroker(k, v);
            if (refused == null) continue;
            String why = "wants broker setting " + k + "=" + v + ", server has " + is + " and " + refused;
            if (SOFT.contains(k)) note(why); else skip(why);
        }
    }

    private static Map<String, String> brokerConfig() throws Exception {
        ConfigResource r = new ConfigResource(ConfigResource.Type.BROKER, nodes().iterator().next().idString());
        Config c = admin().describeConfigs(List.of(r)).all().get(20, TimeUnit.SECONDS).get(r);
        Map<String, String> m = new LinkedHashMap<>();
        for (ConfigEntry e : c.entries()) m.put(e.name(), e.value());
        return m;
    }

    private static String alterBroker(String k, String v) {
        try {
            alter(new ConfigResource(ConfigResource.Type.BROKER, ""), k, v, AlterConfigOp.OpType.SET);
            CHANGED.put(k, v);
            for (int i = 0; i < 50; i++) {
                if (v.equals(brokerConfig().get(k))) return null;
                Thread.sleep(100);
            }
            return "accepted the change without applying it";
        } catch (Exception e) {
            return "refuses to change it (" + brief(e) + ")";
        }
    }

    public static void setGroupConfig(String group, String k, String v) {
        setGroupConfigs(group, Map.of(k, v));
    }

    private static void setGroupConfigs(String group, Map<String, String> kv) {
        try {
            List<AlterConfigOp> ops = new ArrayList<>();
            kv.forEach((k, v) -> ops.add(new AlterConfigOp(new ConfigEntry(k, v), AlterConfigOp.OpType.SET)));
            admin().incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, group), ops)).all().get(20, TimeUnit.SECONDS);
            synchronized (External.class) { kv.keySet().forEach(k -> GROUPS_CONFIGURED.computeIfAbsent(group, x -> new HashSet<>()).add(k)); }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new RuntimeException(e);
        } catch (Exception e) {
            throw new RuntimeException("group settings " + kv + " for " + group, e);
        }
    }

    private static void alter(ConfigResource r, String k, String v, AlterConfigOp.OpType op) throws Exception {
        admin().incrementalAlterConfigs(Map.of(r, List.of(new AlterConfigOp(new ConfigEntry(k, v), op)))).all().get(20, TimeUnit.SECONDS);
    }

    /** Delete every topic, every group without members, and every setting that a test has changed. */
    public static synchronized void clean() {
        quiet("unset group settings", External::cleanGroupSettings);
        GROUPS_CONFIGURED.clear();
        for (String k : new ArrayList<>(CHANGED.keySet())) {
            quiet("unset broker setting " + k, () -> alter(new ConfigResource(ConfigResource.Type.BROKER, ""), k, "", AlterConfigOp.OpType.DELETE));
        }
        CHANGED.clear();
        quiet("delete topics", External::deleteAllTopics);
        quiet("delete groups", () -> {
            Collection<GroupListing> all = admin().listGroups().all().get(20, TimeUnit.SECONDS);
            for (int round = 0; round < 2 && !all.isEmpty(); round++) {
                Map<GroupListing, KafkaFuture<Void>> fs = new LinkedHashMap<>();
                for (GroupListing g : all) fs.put(g, delete(g));
                List<GroupListing> left = new ArrayList<>();
                for (Map.Entry<GroupListing, KafkaFuture<Void>> f : fs.entrySet()) {
                    try {
                        f.getValue().get(20, TimeUnit.SECONDS);
                    } catch (ExecutionException e) {
                        if (e.getCause() instanceof GroupNotEmptyException) left.add(f.getKey());
                    }
                }
                // members that a test has left behind
                if (round == 0) for (GroupListing g : left) evict(g);
                all = left;
            }
        });
    }

    private static KafkaFuture<Void> delete(GroupListing g) {
        Set<String> one = Set.of(g.groupId());
        switch (g.type().orElse(GroupType.CLASSIC)) {
            case STREAMS: return admin().deleteStreamsGroups(one).all();
            case SHARE: return admin().deleteShareGroups(one).all();
            default: return admin().deleteConsumerGroups(one).all();
        }
    }

    /** Makes the members of a group leave it, each by the request that it would send itself. */
    private static void evict(GroupListing g) {
        String id = g.groupId();
        Set<String> one = Set.of(id);
        quiet("empty group " + id, () -> {
            int port = nodes().iterator().next().port();
            switch (g.type().orElse(GroupType.CLASSIC)) {
                case STREAMS:
                    for (StreamsGroupMemberDescription m : admin().describeStreamsGroups(one).all().get(20, TimeUnit.SECONDS).get(id).members())
                        IntegrationTestUtils.connectAndReceive(new StreamsGroupHeartbeatRequest.Builder(new StreamsGroupHeartbeatRequestData()
                            .setGroupId(id).setMemberId(m.memberId()).setMemberEpoch(-1)).build(), port);
                    break;
                case SHARE:
                    for (ShareMemberDescription m : admin().describeShareGroups(one).all().get(20, TimeUnit.SECONDS).get(id).members())
                        IntegrationTestUtils.connectAndReceive(new ShareGroupHeartbeatRequest.Builder(new ShareGroupHeartbeatRequestData()
                            .setGroupId(id).setMemberId(m.consumerId()).setMemberEpoch(-1)).build(), port);
                    break;
                case CONSUMER:
                    for (MemberDescription m : admin().describeConsumerGroups(one).all().get(20, TimeUnit.SECONDS).get(id).members())
                        IntegrationTestUtils.connectAndReceive(new ConsumerGroupHeartbeatRequest.Builder(new ConsumerGroupHeartbeatRequestData()
                            .setGroupId(id).setMemberId(m.consumerId()).setMemberEpoch(-1), true).build(), port);
                    break;
                default:
                    DescribeGroupsResponse d = IntegrationTestUtils.connectAndReceive(new DescribeGroupsRequest.Builder(
                        new DescribeGroupsRequestData().setGroups(List.of(id))).build(), port);
                    List<MemberIdentity> ms = new ArrayList<>();
                    d.data().groups().get(0).members().forEach(m -> ms.add(new MemberIdentity().setMemberId(m.memberId()).setGroupInstanceId(m.groupInstanceId())));
                    if (!ms.isEmpty()) IntegrationTestUtils.connectAndReceive(new LeaveGroupRequest.Builder(id, ms).build(), port);
            }
        });
    }

    /** Also those that a test has made by its own Admin client. */
    private static void cleanGroupSettings() throws Exception {
        Set<ConfigResource> rs = new HashSet<>();
        try {
            rs.addAll(admin().listConfigResources(Set.of(ConfigResource.Type.GROUP), new ListConfigResourcesOptions()).all().get(20, TimeUnit.SECONDS));
        } catch (ExecutionException unsupported) {
            if (useKnownGroups) KNOWN_GROUPS.forEach(g -> rs.add(new ConfigResource(ConfigResource.Type.GROUP, g)));
            GROUPS_CONFIGURED.keySet().forEach(g -> rs.add(new ConfigResource(ConfigResource.Type.GROUP, g)));
        }
        if (rs.isEmpty()) return;
        Map<ConfigResource, Collection<AlterConfigOp>> undo = new LinkedHashMap<>();
        admin().describeConfigs(rs).all().get(20, TimeUnit.SECONDS).forEach((r, c) -> {
            List<AlterConfigOp> ops = new ArrayList<>();
            for (ConfigEntry e : c.entries())
                if (e.source() == ConfigEntry.ConfigSource.DYNAMIC_GROUP_CONFIG) ops.add(new AlterConfigOp(new ConfigEntry(e.name(), ""), AlterConfigOp.OpType.DELETE));
            if (!ops.isEmpty()) undo.put(r, ops);
        });
        if (!undo.isEmpty()) admin().incrementalAlterConfigs(undo).all().get(20, TimeUnit.SECONDS);
    }

    public static void deleteAllTopics() throws Exception {
        Set<String> topics = new HashSet<>(admin().listTopics(new ListTopicsOptions().listInternal(false)).names().get(20, TimeUnit.SECONDS));
        topics.removeIf(t -> t.startsWith("__"));
        if (topics.isEmpty()) return;
        for (KafkaFuture<Void> f : admin().deleteTopics(topics).topicNameValues().values()) {
            try { f.get(20, TimeUnit.SECONDS); } catch (ExecutionException gone) { /* deleted meanwhile */ }
        }
        for (int i = 0; i < 100; i++) {
            Set<String> left = new HashSet<>(admin().listTopics().names().get(20, TimeUnit.SECONDS));
            left.retainAll(topics);
            if (left.isEmpty()) return;
            Thread.sleep(100);
        }
    }

    private interface Act { void run() throws Exception; }

    private static void quiet(String what, Act a) {
        try {
            a.run();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (Exception e) {
            note("could not " + what + ": " + brief(e));
        }
    }

    static String brief(Throwable t) {
        if (t instanceof ExecutionException && t.getCause() != null) t = t.getCause();
        return t.getClass().getSimpleName() + (t.getMessage() == null ? "" : ": " + t.getMessage());
    }
}
