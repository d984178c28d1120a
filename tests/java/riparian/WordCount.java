package riparian;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.Locale;
import java.util.Properties;
import java.util.Scanner;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TaskMetadata;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * An ordinary word count: lines in, a repartition topic by word, a store of counts, counts out as text.
 *
 * <p>Prints one plain line for each change: {@code state OLD NEW}, {@code tasks THREAD active=... standby=...},
 * {@code counted N} (updates so far), {@code error TEXT}, {@code closed}. Closes on SIGTERM; exits with 1 when Streams
 * gives up. With {@code --copy-from TOPIC} it is another version, in which what is in that topic goes to the counts too, so
 * that the other subtopologies have other numbers. With {@code --shutdown-application-on WORD} that word ends all instances. Standard input may say
 * {@code add} and {@code remove}: a stream thread more or less; {@code added THREAD} and {@code removed THREAD} tell when
 * it is done. At {@code stumble} the thread that meets the next word ends, whatever it does with it, and is replaced;
 * {@code stumbling} tells that this is so from now on.
 */
public final class WordCount {
    private WordCount() {}

    public static void main(String[] args) throws Exception {
        Options options = new Options(args);
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, options.text("bootstrap"));
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, options.text("application-id", "word-count"));
        config.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        config.put(StreamsConfig.STATE_DIR_CONFIG, options.text("state-dir"));
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, (int) options.number("threads", 1));
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, options.text("guarantee", "at_least_once"));
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, options.number("commit-interval-ms", 200));
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        String endpoint = options.text("endpoint", "");
        if (!endpoint.isEmpty()) {
            config.put(StreamsConfig.APPLICATION_SERVER_CONFIG, endpoint);
        }
        options.applySettings(config);

        String poison = options.text("shutdown-application-on", "");
        AtomicBoolean stumbles = new AtomicBoolean();
        Consumer<String> stumble = word -> {
            if (stumbles.compareAndSet(true, false)) {
                throw new Accident("met " + word);
            }
        };
        AtomicLong counted = new AtomicLong();
        StreamsBuilder builder = new StreamsBuilder();
        String copied = options.text("copy-from", "");
        if (!copied.isEmpty()) {
            builder.stream(copied).to(options.text("output", "word-counts"));
        }
        builder.stream(options.text("input", "text-lines"), Consumed.with(Serdes.String(), Serdes.String()))
                .flatMapValues(line -> Arrays.asList(line.toLowerCase(Locale.ROOT).trim().split("\\W+")))
                .filterNot((key, word) -> word.isEmpty())
                .peek((key, word) -> {
                    if (word.equals(poison)) {
                        throw new IllegalStateException("met " + word);
                    }
                    stumble.accept(word);
                })
                .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
                .count(Materialized.as("counts"))
                .toStream()
                .peek((word, count) -> {
                    stumble.accept(word);
                    counted.incrementAndGet();
                })
                .mapValues(String::valueOf)
                .to(options.text("output", "word-counts"), Produced.with(Serdes.String(), Serdes.String()));

        // Closed by `finish`, which may be called from the shutdown hook too.
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        CountDownLatch ended = new CountDownLatch(1);
        AtomicBoolean failed = new AtomicBoolean();
        streams.setStateListener((next, previous) -> {
            say("state " + previous + " " + next);
            if (next == KafkaStreams.State.ERROR) {
                failed.set(true);
                ended.countDown();
            }
            if (next == KafkaStreams.State.NOT_RUNNING) {
                ended.countDown();
            }
        });
        streams.setUncaughtExceptionHandler(error -> {
            boolean isAccident = false;
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                say("error " + cause.getClass().getSimpleName() + ": " + cause.getMessage());
                isAccident |= cause instanceof Accident;
            }
            if (isAccident) {
                return StreamThreadExceptionResponse.REPLACE_THREAD;
            }
            return poison.isEmpty()
                    ? StreamThreadExceptionResponse.SHUTDOWN_CLIENT
                    : StreamThreadExceptionResponse.SHUTDOWN_APPLICATION;
        });
        Thread closer = new Thread(() -> finish(streams), "closer");
        Runtime.getRuntime().addShutdownHook(closer);
        streams.start();
        Thread listener = new Thread(() -> listen(streams, stumbles), "listener");
        listener.setDaemon(true);
        listener.start();
        printProgressUntil(streams, counted, ended);
        if (failed.get()) {
            System.exit(1);
        }
    }

    /** Ends a thread that was told to stumble. */
    private static final class Accident extends RuntimeException {
        Accident(String message) {
            super(message);
        }
    }

    private static void listen(KafkaStreams streams, AtomicBoolean stumbles) {
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8);
        while (lines.hasNextLine()) {
            switch (lines.nextLine()) {
                case "add" -> say("added " + streams.addStreamThread().orElse("none"));
                case "remove" -> say("removed " + streams.removeStreamThread().orElse("none"));
                case "stumble" -> {
                    stumbles.set(true);
                    say("stumbling");
                }
                default -> say("error not a command");
            }
        }
    }

    private static void finish(KafkaStreams streams) {
        boolean clean = streams.close(Duration.ofSeconds(20));
        say(clean ? "closed" : "error close timed out");
    }

    private static void printProgressUntil(KafkaStreams streams, AtomicLong counted, CountDownLatch ended)
            throws InterruptedException {
        long countedShown = 0;
        TreeMap<String, String> shown = new TreeMap<>();
        do {
            for (ThreadMetadata thread : streams.metadataForLocalThreads()) {
                String tasks = "active=" + names(thread.activeTasks()) + " standby=" + names(thread.standbyTasks());
                if (!tasks.equals(shown.put(thread.threadName(), tasks))) {
                    say("tasks " + thread.threadName() + " " + tasks);
                }
            }
            long countedNow = counted.get();
            if (countedNow != countedShown) {
                countedShown = countedNow;
                say("counted " + countedNow);
            }
        } while (!ended.await(100, TimeUnit.MILLISECONDS));
    }

    private static String names(Collection<TaskMetadata> tasks) {
        return tasks.stream()
                .map(TaskMetadata::taskId)
                .sorted(Comparator.naturalOrder())
                .map(Object::toString)
                .collect(Collectors.joining(","));
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
