package riparian;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.coordinator.group.api.streams.assignor.AssignmentConfigs;
import org.apache.kafka.coordinator.group.api.streams.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.MemberAssignmentMetadata;
import org.apache.kafka.coordinator.group.api.streams.assignor.MemberAssignmentState;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;

/**
 * Has Kafka's own class for the assignor {@code sticky} decide about groups.
 *
 * <p>Reads a group from each line of standard input, in the format of {@code tests/assignor/README.md}, and writes a line
 * for each: {@code results}, how many different results {@code --runs} runs had in which members and tasks were put in in
 * another order each time; {@code members}, the first of them; and {@code nanos}, the median of {@code --timed} runs after
 * as many that don't count.
 */
public final class KafkaSticky {
    private KafkaSticky() {}

    public static void main(String[] args) throws Exception {
        Options options = new Options(args);
        int runs = (int) options.number("runs", 1);
        int timed = (int) options.number("timed", 0);
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode spec = mapper.readTree(line);
            StickyTaskAssignor assignor = new StickyTaskAssignor();
            Map<String, MemberAssignment> first = null;
            Set<Map<String, MemberAssignment>> results = new HashSet<>();
            for (int run = 0; run < runs; run++) {
                Group group = new Group(spec, new Random(run));
                Map<String, MemberAssignment> result = assignor.assign(group, group).members();
                results.add(result);
                first = first == null ? result : first;
            }
            ObjectNode answer = mapper.createObjectNode();
            answer.put("results", results.size());
            answer.set("members", describe(mapper, first));
            if (timed > 0) {
                answer.put("nanos", time(assignor, new Group(spec, new Random(0)), timed));
            }
            System.out.println(answer);
            System.out.flush();
        }
    }

    private static long time(StickyTaskAssignor assignor, Group group, int timed) {
        long[] nanos = new long[timed];
        for (int round = -timed; round < timed; round++) {
            long start = System.nanoTime();
            GroupAssignment result = assignor.assign(group, group);
            long end = System.nanoTime();
            if (result.members().isEmpty()) {
                throw new IllegalStateException("no members");
            }
            nanos[Math.max(round, 0)] = end - start;
        }
        Arrays.sort(nanos);
        return nanos[timed / 2];
    }

    private static ObjectNode describe(ObjectMapper mapper, Map<String, MemberAssignment> members) {
        ObjectNode node = mapper.createObjectNode();
        new TreeMap<>(members).forEach((id, member) -> {
            ObjectNode tasks = node.putObject(id);
            for (Map.Entry<String, Map<String, Set<Integer>>> role :
                    Map.of("active", member.activeTasks(), "standby", member.standbyTasks()).entrySet()) {
                ObjectNode list = tasks.putObject(role.getKey());
                new TreeMap<>(role.getValue()).forEach((subtopology, partitions) ->
                        list.set(subtopology, mapper.valueToTree(new TreeSet<>(partitions))));
            }
        });
        return node;
    }

    /** A group whose members and tasks are put in in an order that depends on the random numbers. */
    private static final class Group implements GroupSpec, TopologyDescriber {
        private final Random random;
        private final List<String> subtopologies = new ArrayList<>();
        private final Map<String, Integer> partitions = new LinkedHashMap<>();
        private final Set<String> stateful = new LinkedHashSet<>();
        private final Map<String, Member> members = new LinkedHashMap<>();
        private final int standbys;

        Group(JsonNode spec, Random random) {
            this.random = random;
            standbys = spec.path("numStandbyReplicas").asInt();
            for (JsonNode subtopology : spec.path("subtopologies")) {
                String id = subtopology.path("id").asText();
                subtopologies.add(id);
                partitions.put(id, subtopology.path("partitions").asInt());
                if (subtopology.path("stateful").asBoolean()) {
                    stateful.add(id);
                }
            }
            List<JsonNode> nodes = new ArrayList<>();
            spec.path("members").forEach(nodes::add);
            Collections.shuffle(nodes, random);
            for (JsonNode node : nodes) {
                members.put(node.path("id").asText(), new Member(node));
            }
        }

        private <K, V> Map<K, V> shuffled(Map<K, V> map) {
            List<Map.Entry<K, V>> entries = new ArrayList<>(map.entrySet());
            Collections.shuffle(entries, random);
            Map<K, V> shuffled = new LinkedHashMap<>();
            entries.forEach(entry -> shuffled.put(entry.getKey(), entry.getValue()));
            return shuffled;
        }

        private Map<String, Set<Integer>> tasks(JsonNode node) {
            Map<String, Set<Integer>> tasks = new LinkedHashMap<>();
            node.properties().forEach(entry -> {
                List<Integer> list = new ArrayList<>();
                entry.getValue().forEach(partition -> list.add(partition.asInt()));
                Collections.shuffle(list, random);
                tasks.put(entry.getKey(), new LinkedHashSet<>(list));
            });
            return shuffled(tasks);
        }

        private Map<String, Map<Integer, Long>> offsets(JsonNode node) {
            Map<String, Map<Integer, Long>> offsets = new LinkedHashMap<>();
            node.properties().forEach(entry -> {
                Map<Integer, Long> of = new LinkedHashMap<>();
                entry.getValue().properties().forEach(offset ->
                        of.put(Integer.parseInt(offset.getKey()), offset.getValue().asLong()));
                offsets.put(entry.getKey(), shuffled(of));
            });
            return shuffled(offsets);
        }

        @Override
        public Collection<String> memberIds() {
            return members.keySet();
        }

        @Override
        public MemberAssignmentMetadata memberMetadata(String id) {
            return members.get(id);
        }

        @Override
        public MemberAssignmentState memberAssignmentState(String id) {
            return members.get(id);
        }

        @Override
        public AssignmentConfigs configs() {
            return new AssignmentConfigs() {
                @Override
                public int numStandbyReplicas() {
                    return standbys;
                }

                @Override
                public List<String> rackAwareAssignmentTags() {
                    return List.of();
                }
            };
        }

        @Override
        public List<String> subtopologies() {
            return subtopologies;
        }

        @Override
        public int maxNumInputPartitions(String subtopology) {
            return partitions.get(subtopology);
        }

        @Override
        public boolean isStateful(String subtopology) {
            return stateful.contains(subtopology);
        }

        private final class Member implements MemberAssignmentMetadata, MemberAssignmentState {
            private final String process;
            private final Map<String, Set<Integer>> active;
            private final Map<String, Set<Integer>> standby;
            private final Map<String, Set<Integer>> warmup;
            private final Map<String, Map<Integer, Long>> offsets;
            private final Map<String, Map<Integer, Long>> ends;

            Member(JsonNode node) {
                process = node.path("processId").asText();
                active = tasks(node.path("active"));
                standby = tasks(node.path("standby"));
                warmup = tasks(node.path("warmup"));
                offsets = Group.this.offsets(node.path("taskOffsets"));
                ends = Group.this.offsets(node.path("taskEndOffsets"));
            }

            @Override
            public Optional<String> instanceId() {
                return Optional.empty();
            }

            @Override
            public Optional<String> rackId() {
                return Optional.empty();
            }

            @Override
            public String processId() {
                return process;
            }

            @Override
            public Map<String, String> clientTags() {
                return Map.of();
            }

            @Override
            public Map<String, Set<Integer>> activeTasks() {
                return active;
            }

            @Override
            public Map<String, Set<Integer>> standbyTasks() {
                return standby;
            }

            @Override
            public Map<String, Set<Integer>> warmupTasks() {
                return warmup;
            }

            @Override
            public Map<String, Map<Integer, Long>> taskOffsets() {
                return offsets;
            }

            @Override
            public Map<String, Map<Integer, Long>> taskEndOffsets() {
                return ends;
            }
        }
    }
}
