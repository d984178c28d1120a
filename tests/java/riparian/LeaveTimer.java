package riparian;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;

/**
 * How long the tasks of an instance that leaves stand still: several instances of a stateless application with default
 * settings, a record per partition every few milliseconds, and a reader that sees who wrote each result.
 *
 * <p>Prints for each round {@code round N: moved M told T ms output O ms}: from the call of {@code close} until the last
 * instance that is left was told of its new tasks, which is the server's share, and until the last moved task had its
 * first result.
 */
public final class LeaveTimer {
    private static final String IN = "leave-in";
    private static final String OUT = "leave-out";
    private static final long FEED_EVERY_MS = 5;
    /** An owner counts as settled when it has not changed for so long. */
    private static final long SETTLED_MS = 3000;
    /** Kafka's interval: an instance leaves at any point of it. */
    private static final long HEARTBEAT_MS = 5000;
    private static final long LIMIT_MS = 90_000;

    private final Options options;
    private final int partitions;
    /** Who wrote the last result of each partition, and since when nobody else has. */
    private final Map<Integer, Owner> owners = new ConcurrentHashMap<>();
    private final Map<Integer, Long> toldAt = new ConcurrentHashMap<>();

    private record Owner(String instance, long sinceNanos) {}

    private LeaveTimer(Options options) {
        this.options = options;
        this.partitions = (int) options.number("partitions", 24);
    }

    public static void main(String[] args) throws Exception {
        new LeaveTimer(new Options(args)).run();
    }

    private void run() throws Exception {
        createTopics();
        startDaemon("feeder", this::feed);
        startDaemon("reader", this::read);
        Random random = new Random(options.number("seed", 1));
        int count = (int) options.number("instances", 3);
        List<KafkaStreams> instances = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            instances.add(start(i));
            // Instances of an application are not started at the same instant, nor do they send heartbeats together.
            Thread.sleep(HEARTBEAT_MS / count);
        }
        for (int round = 1; round <= options.number("rounds", 3); round++) {
            waitUntilSettled(count);
            Thread.sleep(random.nextLong(HEARTBEAT_MS));
            time(round, instances, count - 1);
            instances.set(count - 1, start(count - 1));
        }
        instances.parallelStream().forEach(instance -> instance.close(Duration.ofSeconds(20)));
        System.out.println("done");
        System.exit(0);
    }

    private void time(int round, List<KafkaStreams> instances, int leaving) throws Exception {
        Set<Integer> moving = new HashSet<>();
        owners.forEach((partition, owner) -> {
            if (owner.instance().equals(name(leaving))) {
                moving.add(partition);
            }
        });
        toldAt.clear();
        long start = System.nanoTime();
        Thread closer = new Thread(() -> instances.get(leaving).close(Duration.ofSeconds(20)));
        closer.start();
        long last = start;
        for (int partition : moving) {
            Owner owner;
            while ((owner = owners.get(partition)).instance().equals(name(leaving))) {
                if (millisSince(start) > LIMIT_MS) {
                    throw new IllegalStateException("partition " + partition + " has had no result since");
                }
                Thread.sleep(1);
            }
            last = Math.max(last, owner.sinceNanos());
        }
        long told = toldAt.values().stream().mapToLong(Long::longValue).max().orElse(start);
        System.out.printf("round %d: moved %d told %d ms output %d ms%n", round, moving.size(),
                (told - start) / 1_000_000, (last - start) / 1_000_000);
        closer.join();
    }

    private KafkaStreams start(int index) {
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, options.text("bootstrap"));
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "leave-timer");
        config.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        config.put(StreamsConfig.STATE_DIR_CONFIG, Path.of(options.text("state-dir"), name(index)).toString());
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, (int) options.number("threads", 2));
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        options.applySettings(config);
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(IN).mapValues(partition -> partition + " " + name(index)).to(OUT);
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        streams.setStateListener((next, previous) -> {
            if (next == KafkaStreams.State.REBALANCING) {
                toldAt.put(index, System.nanoTime());
            }
        });
        streams.start();
        return streams;
    }

    private void waitUntilSettled(int instances) throws InterruptedException {
        long start = System.nanoTime();
        while (!isSettled(instances)) {
            if (millisSince(start) > LIMIT_MS) {
                throw new IllegalStateException("the instances do not settle: " + owners);
            }
            Thread.sleep(50);
        }
    }

    private boolean isSettled(int instances) {
        Map<String, Integer> counts = new ConcurrentHashMap<>();
        for (Owner owner : owners.values()) {
            if (millisSince(owner.sinceNanos()) < SETTLED_MS) {
                return false;
            }
            counts.merge(owner.instance(), 1, Integer::sum);
        }
        return owners.size() == partitions
                && counts.size() == instances
                && counts.values().stream().allMatch(count -> count == partitions / instances);
    }

    private void createTopics() throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", options.text("bootstrap"));
        try (Admin admin = Admin.create(config)) {
            admin.createTopics(Arrays.asList(new NewTopic(IN, partitions, (short) 1), new NewTopic(OUT, 1, (short) 1)))
                    .all()
                    .get();
        } catch (ExecutionException error) {
            throw new IllegalStateException(error.getCause());
        }
    }

    private void feed() {
        Map<String, Object> config = Map.of("bootstrap.servers", options.text("bootstrap"), "linger.ms", 0);
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            while (true) {
                for (int partition = 0; partition < partitions; partition++) {
                    producer.send(new ProducerRecord<>(IN, partition, null, Integer.toString(partition)));
                }
                Thread.sleep(FEED_EVERY_MS);
            }
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }

    private void read() {
        Map<String, Object> config = Map.of("bootstrap.servers", options.text("bootstrap"));
        try (var consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(IntStream.of(0).mapToObj(partition -> new TopicPartition(OUT, partition)).toList());
            consumer.seekToBeginning(Collections.emptyList());
            while (true) {
                for (ConsumerRecord<String, String> result : consumer.poll(Duration.ofMillis(100))) {
                    String[] words = result.value().split(" ");
                    owners.compute(Integer.parseInt(words[0]), (partition, owner) ->
                            owner != null && owner.instance().equals(words[1])
                                    ? owner
                                    : new Owner(words[1], System.nanoTime()));
                }
            }
        }
    }

    private static String name(int index) {
        return "instance" + index;
    }

    private static long millisSince(long nanos) {
        return (System.nanoTime() - nanos) / 1_000_000;
    }

    private static void startDaemon(String name, Runnable work) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        thread.start();
    }
}
