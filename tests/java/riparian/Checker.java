package riparian;

import java.io.BufferedReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * Reads what {@link Feeder} wrote and compares it with what was acknowledged ({@code --acked FILE}, its output).
 *
 * <p>Prints {@code read R acked A lost L doubled D misplaced M misordered O garbled G}; exits with 1 when one of the
 * last five is not 0. Misplaced: acknowledged at an offset where another record stands.
 */
public final class Checker {
    private static final int SHOWN = 10;
    private int complaints;

    private Checker() {}

    public static void main(String[] args) throws Exception {
        System.exit(new Checker().check(new Options(args)) ? 0 : 1);
    }

    private boolean check(Options options) throws Exception {
        Map<String, Long> read = new HashMap<>();
        Map<Integer, Long> last = new HashMap<>();
        Set<Long> seen = new HashSet<>();
        long doubled = 0;
        long misordered = 0;
        long garbled = 0;
        try (Assigned topic = new Assigned(options, options.text("topic"))) {
            Map<TopicPartition, Long> ends = topic.ends();
            while (!topic.reached(ends)) {
                for (ConsumerRecord<String, String> record : topic.poll()) {
                    long number = Long.parseLong(record.key());
                    if (!Lines.line(number).equals(record.value()) || number % topic.partitions() != record.partition()) {
                        garbled += complain("garbled", record);
                    }
                    if (!seen.add(number)) {
                        doubled += complain("doubled", record);
                    }
                    Long before = last.put(record.partition(), number);
                    if (before != null && before >= number) {
                        misordered += complain("after " + before, record);
                    }
                    read.put(record.partition() + " " + record.offset(), number);
                }
            }
        }
        long acked = 0;
        long lost = 0;
        long misplaced = 0;
        try (BufferedReader lines = Files.newBufferedReader(Path.of(options.text("acked")))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] words = line.split(" ");
                if (!words[0].equals("acked")) {
                    continue;
                }
                acked++;
                long number = Long.parseLong(words[3]);
                if (!seen.contains(number)) {
                    lost += complain("lost", line);
                } else if (!Long.valueOf(number).equals(read.get(words[1] + " " + words[2]))) {
                    misplaced += complain("misplaced", line);
                }
            }
        }
        System.out.println("read " + read.size() + " acked " + acked + " lost " + lost + " doubled " + doubled + " misplaced "
                + misplaced + " misordered " + misordered + " garbled " + garbled);
        return lost + doubled + misplaced + misordered + garbled == 0;
    }

    private int complain(String what, Object where) {
        if (complaints++ < SHOWN) {
            System.out.println(what + ": " + where);
        }
        return 1;
    }
}
