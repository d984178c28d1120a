package riparian;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/**
 * Waits until the counts of the word count are those of the first {@code --count} lines.
 *
 * <p>{@code --exact true}: equal, and still equal two seconds later. Otherwise at least: a crash of an at-least-once
 * application may count a word twice, but never lose one. Prints {@code right WORDS SURPLUS} or what is wrong;
 * {@code --top N} lists the N most frequent words first.
 */
public final class CountsChecker {
    private static final long QUIET_MS = 2000;

    private CountsChecker() {}

    public static void main(String[] args) {
        Options options = new Options(args);
        boolean exact = options.flag("exact");
        Map<String, Long> expected = Lines.counts(options.number("count"));
        Map<String, Long> counts = new HashMap<>();
        long deadline = System.currentTimeMillis() + 1000 * options.number("timeout-s", 60);
        long changed = System.currentTimeMillis();
        try (Assigned topic = new Assigned(options, options.text("topic", "word-counts"))) {
            while (true) {
                for (ConsumerRecord<String, String> record : topic.poll()) {
                    counts.put(record.key(), Long.parseLong(record.value()));
                    changed = System.currentTimeMillis();
                }
                long now = System.currentTimeMillis();
                if (now - changed >= QUIET_MS && wrong(expected, counts, exact) == null) {
                    counts.entrySet().stream()
                            .sorted(Map.Entry.<String, Long>comparingByValue().reversed())
                            .limit(options.number("top", 0))
                            .forEach(entry -> System.out.println("word " + entry.getKey() + " " + entry.getValue()));
                    long surplus = counts.values().stream().mapToLong(it -> it).sum()
                            - expected.values().stream().mapToLong(it -> it).sum();
                    System.out.println("right " + counts.size() + " " + surplus);
                    return;
                }
                if (now >= deadline) {
                    System.out.println("wrong: " + wrong(expected, counts, exact));
                    System.exit(1);
                }
            }
        }
    }

    /** The first difference, or null. */
    private static String wrong(Map<String, Long> expected, Map<String, Long> counts, boolean exact) {
        for (Map.Entry<String, Long> entry : expected.entrySet()) {
            long count = counts.getOrDefault(entry.getKey(), 0L);
            if (exact ? count != entry.getValue() : count < entry.getValue()) {
                return entry.getKey() + " is " + count + ", expected " + (exact ? "" : "at least ") + entry.getValue();
            }
        }
        if (counts.size() > expected.size()) {
            return "there are " + counts.size() + " words, expected " + expected.size();
        }
        return null;
    }
}
