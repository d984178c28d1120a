package riparian;

import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * An application with a large store (RocksDB): each partition's task keeps stock of articles.
 *
 * <p>A message {@code fill N} puts N articles into the store of its partition; any other message is answered in the output
 * topic, with the number of its partition as the key, after a look into the store. Prints {@code state OLD NEW}, {@code error TEXT},
 * {@code closed}. Closes on SIGTERM; exits with 1 when Streams gives up.
 */
public final class Stock {
    private static final String STORE = "stock";

    private Stock() {}

    public static void main(String[] args) throws Exception {
        Options options = new Options(args);
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, options.text("bootstrap"));
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, options.text("application-id"));
        config.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        config.put(StreamsConfig.STATE_DIR_CONFIG, options.text("state-dir"));
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, (int) options.number("threads", 1));
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        options.applySettings(config);

        Topology topology = new Topology();
        topology.addSource("orders", options.text("input"));
        topology.addProcessor("keeper", Keeper::new, "orders");
        topology.addStateStore(
                Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(STORE), Serdes.String(), Serdes.String())
                        .withCachingDisabled(),
                "keeper");
        topology.addSink("answers", options.text("output"), "keeper");

        KafkaStreams streams = new KafkaStreams(topology, config);
        CountDownLatch ended = new CountDownLatch(1);
        AtomicBoolean failed = new AtomicBoolean();
        streams.setStateListener((next, previous) -> {
            say("state " + previous + " " + next);
            failed.compareAndSet(false, next == KafkaStreams.State.ERROR);
            if (next == KafkaStreams.State.ERROR || next == KafkaStreams.State.NOT_RUNNING) {
                ended.countDown();
            }
        });
        streams.setUncaughtExceptionHandler(error -> {
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                say("error " + cause.getClass().getSimpleName() + ": " + cause.getMessage());
            }
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            boolean clean = streams.close(Duration.ofSeconds(20));
            say(clean ? "closed" : "error close timed out");
        }, "closer"));
        streams.start();
        while (!ended.await(1, TimeUnit.SECONDS)) {
            // The state listener says what there is to say.
        }
        if (failed.get()) {
            System.exit(1);
        }
    }

    private static final class Keeper extends ContextualProcessor<String, String, String, String> {
        private KeyValueStore<String, String> store;

        @Override
        public void init(ProcessorContext<String, String> context) {
            super.init(context);
            store = context.getStateStore(STORE);
        }

        @Override
        public void process(Record<String, String> order) {
            String partition = Integer.toString(context().taskId().partition());
            if (order.value().startsWith("fill ")) {
                long count = Long.parseLong(order.value().substring("fill ".length()));
                for (long article = 0; article < count; article++) {
                    store.put("article-" + article, "in stock");
                }
                context().forward(order.withKey(partition).withValue("filled"));
            } else {
                context().forward(order.withKey(partition).withValue(order.value() + " " + store.get("article-0")));
            }
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
