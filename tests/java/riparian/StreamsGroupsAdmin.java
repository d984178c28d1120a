package riparian;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeStreamsGroupsOptions;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListStreamsGroupOffsetsSpec;
import org.apache.kafka.clients.admin.StreamsGroupDescription;
import org.apache.kafka.clients.admin.StreamsGroupMemberAssignment;
import org.apache.kafka.clients.admin.StreamsGroupMemberDescription;
import org.apache.kafka.clients.admin.StreamsGroupSubtopologyDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;

/**
 * Calls each method of the admin client that is about streams groups, for {@code --group} in its {@code --phase}
 * ({@code living}, {@code empty} or {@code gone}; {@code --topic} is a source topic of it), and prints what came of it,
 * without what differs from run to run.
 */
public final class StreamsGroupsAdmin {
    private static final long STABLE_LIMIT_MS = 30_000;
    private final Admin admin;
    private final String group;
    private final TopicPartition first;
    private final TopicPartition second;

    private StreamsGroupsAdmin(Admin admin, Options options) {
        this.admin = admin;
        group = options.text("group");
        first = new TopicPartition(options.text("topic"), 0);
        second = new TopicPartition(options.text("topic"), 1);
    }

    public static void main(String[] args) throws Exception {
        Options options = new Options(args);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", options.text("bootstrap"));
        try (Admin admin = Admin.create(properties)) {
            StreamsGroupsAdmin calls = new StreamsGroupsAdmin(admin, options);
            if (options.text("phase").equals("living")) {
                calls.waitUntilStable();
            }
            calls.ask();
            if (!options.text("phase").equals("gone")) {
                calls.change();
            }
            calls.delete();
        }
    }

    /** Everything that changes nothing. */
    private void ask() {
        tell("list of streams groups", () -> list(ListGroupsOptions.forStreamsGroups()));
        for (GroupState state : List.of(GroupState.STABLE, GroupState.EMPTY, GroupState.NOT_READY)) {
            tell("list of " + state, () -> list(new ListGroupsOptions().inGroupStates(Set.of(state))));
        }
        tell("list of consumer groups", () -> list(ListGroupsOptions.forConsumerGroups()));
        tell("list of classic groups", () -> list(new ListGroupsOptions().withTypes(Set.of(GroupType.CLASSIC))));
        tell("description", () -> describe(false));
        tell("description with operations", () -> describe(true));
        tell("description as a classic group", () ->
                admin.describeClassicGroups(List.of(group)).all().get().get(group).state());
        tell("offsets", () -> offsets(new ListStreamsGroupOffsetsSpec()));
        tell("offsets of partitions", () -> offsets(new ListStreamsGroupOffsetsSpec().topicPartitions(List.of(
                first, new TopicPartition(first.topic(), 99), new TopicPartition("no-such-topic", 0)))));
    }

    /** What changes offsets; a living group refuses some of it. */
    private void change() {
        OffsetAndMetadata one = new OffsetAndMetadata(1, Optional.of(0), "by hand");
        tell("alter", () -> admin.alterStreamsGroupOffsets(group, Map.of(first, one)).all().get());
        tell("alter of a partition that is not there", () -> {
            TopicPartition none = new TopicPartition(first.topic(), 99);
            return admin.alterStreamsGroupOffsets(group, Map.of(none, one)).all().get();
        });
        tell("offsets", () -> offsets(new ListStreamsGroupOffsetsSpec()));
        tell("delete of offsets", () -> admin.deleteStreamsGroupOffsets(group, Set.of(second)).all().get());
        tell("delete of offsets of an unknown topic", () ->
                admin.deleteStreamsGroupOffsets(group, Set.of(new TopicPartition("no-such-topic", 0))).all().get());
        tell("offsets", () -> offsets(new ListStreamsGroupOffsetsSpec()));
    }

    private void delete() {
        tell("delete", () -> admin.deleteStreamsGroups(List.of(group)).all().get());
    }

    private String list(ListGroupsOptions options) throws Exception {
        return admin.listGroups(options).all().get().stream()
                .map(it -> it.groupId() + " " + it.type().orElse(null) + " '" + it.protocol() + "' "
                        + it.groupState().orElse(null))
                .sorted()
                .collect(Collectors.joining("; "));
    }

    private StreamsGroupDescription described(boolean operations) throws Exception {
        DescribeStreamsGroupsOptions options = new DescribeStreamsGroupsOptions();
        options.includeAuthorizedOperations(operations);
        return admin.describeStreamsGroups(List.of(group), options).all().get().get(group);
    }

    private String describe(boolean operations) throws Exception {
        StreamsGroupDescription it = described(operations);
        StringBuilder text = new StringBuilder();
        text.append(it.groupId()).append(' ').append(it.groupState());
        text.append(", topology epoch ").append(it.topologyEpoch());
        text.append(", assignor ").append(it.assignorName());
        text.append(", operations ").append(
                it.authorizedOperations() == null ? null : new java.util.TreeSet<>(it.authorizedOperations()));
        for (StreamsGroupSubtopologyDescription part : sorted(it.subtopologies())) {
            text.append("\n  subtopology ").append(part.subtopologyId());
            text.append(": sources ").append(part.sourceTopics());
            text.append(", repartition sinks ").append(part.repartitionSinkTopics());
            text.append(", repartition sources ").append(topics(part.repartitionSourceTopics()));
            text.append(", changelogs ").append(topics(part.stateChangelogTopics()));
        }
        // Who has which task depends on ids that the members made up.
        long tasks = it.members().stream().mapToLong(member -> count(member.assignment())).sum();
        text.append("\n  ").append(it.members().size()).append(" members with ").append(tasks).append(" tasks");
        for (StreamsGroupMemberDescription member : it.members()) {
            text.append("\n  member: instance ").append(member.instanceId());
            text.append(", rack ").append(member.rackId());
            text.append(", topology epoch ").append(member.topologyEpoch());
            text.append(", host ").append(member.clientHost());
            text.append(", endpoint ").append(member.userEndpoint());
            text.append(", tags ").append(member.clientTags());
            text.append(", classic ").append(member.isClassic());
            text.append(", epoch is the group's ").append(member.memberEpoch() == it.groupEpoch());
            text.append(", has its target ").append(member.assignment().equals(member.targetAssignment()));
            text.append(", tasks ").append(count(member.assignment()));
        }
        return text.toString();
    }

    private static List<StreamsGroupSubtopologyDescription> sorted(Collection<StreamsGroupSubtopologyDescription> parts) {
        return parts.stream().sorted(java.util.Comparator.comparing(it -> it.subtopologyId())).toList();
    }

    private static Map<String, String> topics(Map<String, StreamsGroupSubtopologyDescription.TopicInfo> topics) {
        Map<String, String> shown = new TreeMap<>();
        topics.forEach((name, it) -> shown.put(name,
                it.partitions() + " partitions, factor " + it.replicationFactor() + ", "
                        + new TreeMap<>(it.topicConfigs())));
        return shown;
    }

    private static long count(StreamsGroupMemberAssignment assignment) {
        return Stream.of(assignment.activeTasks(), assignment.standbyTasks(), assignment.warmupTasks())
                .flatMap(List::stream)
                .mapToLong(tasks -> tasks.partitions().size())
                .sum();
    }

    private String offsets(ListStreamsGroupOffsetsSpec spec) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets =
                admin.listStreamsGroupOffsets(Map.of(group, spec)).partitionsToOffsetAndMetadata(group).get();
        Map<String, String> shown = new TreeMap<>();
        // What the application notes with its own commits is its affair.
        offsets.forEach((partition, it) -> shown.put(partition.toString(), it == null ? null : it.offset()
                + (it.metadata().equals("by hand") ? " by hand, epoch " + it.leaderEpoch() : "")));
        return shown.toString();
    }

    private void waitUntilStable() throws Exception {
        long deadline = System.currentTimeMillis() + STABLE_LIMIT_MS;
        while (true) {
            StreamsGroupDescription it = described(false);
            boolean isStable = it.groupState() == GroupState.STABLE && !it.members().isEmpty()
                    && it.members().stream().allMatch(member -> member.memberEpoch() == it.groupEpoch()
                            && member.assignment().equals(member.targetAssignment()));
            if (isStable) {
                return;
            }
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException("the group is not stable: " + it);
            }
            Thread.sleep(50);
        }
    }

    private void tell(String what, Callable<?> call) {
        try {
            System.out.println(what + ": " + call.call());
        } catch (ExecutionException e) {
            Throwable cause = e.getCause();
            System.out.println(what + ": " + cause.getClass().getSimpleName() + ": " + cause.getMessage());
        } catch (Exception e) {
            System.out.println(what + ": " + e.getClass().getSimpleName() + ": " + e.getMessage());
        }
    }
}
