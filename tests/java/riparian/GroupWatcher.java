package riparian;

import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.DescribeStreamsGroupsOptions;
import org.apache.kafka.clients.admin.StreamsGroupDescription;
import org.apache.kafka.clients.admin.StreamsGroupMemberAssignment;
import org.apache.kafka.clients.admin.StreamsGroupMemberDescription;

/**
 * Asks the server again and again who owns which task of a streams group, until it is ended by SIGTERM.
 *
 * <p>Prints a line when the answer changed:
 * {@code group STATE epoch=N target=N members=N active=N tasks=CLIENT:active/standby;...}. Prints {@code TWO OWNERS TASK A B}
 * when the records of the server give a task to two members, and {@code BACKWARDS ...} when an epoch went back.
 * Ends with {@code polls N errors N}.
 */
public final class GroupWatcher {
    private static volatile boolean ending;

    private GroupWatcher() {}

    public static void main(String[] args) throws Exception {
        Options options = new Options(args);
        String group = options.text("group");
        long interval = options.number("interval-ms", 50);
        Properties config = new Properties();
        config.put(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, options.text("bootstrap"));
        config.put(AdminClientConfig.RECONNECT_BACKOFF_MAX_MS_CONFIG, "200");
        config.put(AdminClientConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, "3000");
        config.put(AdminClientConfig.REQUEST_TIMEOUT_MS_CONFIG, "2000");
        options.applySettings(config);
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            ending = true;
            try {
                main.join(5000);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));

        String shown = "";
        int epoch = -1;
        Map<String, Integer> memberEpochs = new TreeMap<>();
        long polls = 0;
        long errors = 0;
        try (Admin admin = Admin.create(config)) {
            while (!ending) {
                TimeUnit.MILLISECONDS.sleep(interval);
                StreamsGroupDescription description;
                try {
                    description = admin.describeStreamsGroups(
                                    List.of(group), new DescribeStreamsGroupsOptions().timeoutMs(2000))
                            .describedGroups().get(group).get();
                } catch (ExecutionException e) {
                    errors++;
                    String line = "unanswered " + e.getCause().getClass().getSimpleName();
                    if (!line.equals(shown)) {
                        shown = line;
                        say(line);
                    }
                    continue;
                }
                polls++;
                checkOwners(description);
                if (description.groupEpoch() < epoch) {
                    say("BACKWARDS group epoch " + epoch + " to " + description.groupEpoch());
                }
                epoch = description.groupEpoch();
                Map<String, Integer> now = new TreeMap<>();
                for (StreamsGroupMemberDescription member : description.members()) {
                    now.put(member.memberId(), member.memberEpoch());
                    Integer before = memberEpochs.get(member.memberId());
                    // A member that was fenced rejoins with epoch 0 and the same id.
                    if (before != null && member.memberEpoch() > 0 && member.memberEpoch() < before) {
                        say("BACKWARDS member " + member.memberId() + " " + before + " to " + member.memberEpoch());
                    }
                }
                memberEpochs = now;
                String line = line(description);
                if (!line.equals(shown)) {
                    shown = line;
                    say(line);
                }
            }
        }
        say("polls " + polls + " errors " + errors);
    }

    private static void checkOwners(StreamsGroupDescription description) {
        Map<String, String> owners = new TreeMap<>();
        for (StreamsGroupMemberDescription member : description.members()) {
            for (String task : tasks(member.assignment().activeTasks())) {
                String other = owners.put(task, member.memberId());
                if (other != null) {
                    say("TWO OWNERS " + task + " " + other + " " + member.memberId());
                }
            }
        }
    }

    private static String line(StreamsGroupDescription description) {
        TreeSet<String> active = new TreeSet<>();
        TreeSet<String> members = new TreeSet<>();
        for (StreamsGroupMemberDescription member : description.members()) {
            StreamsGroupMemberAssignment assignment = member.assignment();
            active.addAll(tasks(assignment.activeTasks()));
            members.add(member.clientId() + ":" + String.join(",", tasks(assignment.activeTasks())) + "/"
                    + String.join(",", tasks(assignment.standbyTasks())));
        }
        return "group " + description.groupState() + " epoch=" + description.groupEpoch() + " target="
                + description.targetAssignmentEpoch() + " members=" + members.size() + " active=" + active.size() + " tasks="
                + String.join(";", members);
    }

    private static TreeSet<String> tasks(List<StreamsGroupMemberAssignment.TaskIds> ids) {
        return ids.stream()
                .flatMap(it -> it.partitions().stream().map(partition -> it.subtopologyId() + "_" + partition))
                .collect(Collectors.toCollection(TreeSet::new));
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
