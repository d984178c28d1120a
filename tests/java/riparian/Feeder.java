package riparian;

import java.io.PrintStream;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Writes numbered lines with an idempotent producer, five requests in flight.
 *
 * <p>Line {@code n} goes to partition {@code n} modulo their number, with the number as its key. Prints
 * {@code acked PARTITION OFFSET N} for each acknowledged record and {@code done ACKED FAILED} at the end; exits with 1
 * when a record was refused. {@code --quiet true} prints {@code fed N} now and then instead of each record.
 */
public final class Feeder {
    private Feeder() {}

    public static void main(String[] args) {
        Options options = new Options(args);
        Properties config = new Properties();
        config.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, options.text("bootstrap"));
        config.put(ProducerConfig.ACKS_CONFIG, "all");
        config.put(ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, "true");
        config.put(ProducerConfig.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION, "5");
        config.put(ProducerConfig.LINGER_MS_CONFIG, "2");
        config.put(ProducerConfig.BATCH_SIZE_CONFIG, "2000");
        config.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, StringSerializer.class);
        config.put(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, StringSerializer.class);
        options.applySettings(config);
        long from = options.number("from", 0);
        long count = options.number("count");
        long rate = options.number("rate", Long.MAX_VALUE);
        boolean quiet = options.flag("quiet");
        String topic = options.text("topic");
        PrintStream out = System.out;
        AtomicLong acked = new AtomicLong();
        AtomicLong failed = new AtomicLong();

        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config)) {
            int partitions = producer.partitionsFor(topic).size();
            long start = System.nanoTime();
            for (long n = from; n < from + count; n++) {
                pace(start, n - from, rate);
                long number = n;
                int partition = (int) (n % partitions);
                producer.send(new ProducerRecord<>(topic, partition, Long.toString(n), Lines.line(n)), (metadata, error) -> {
                    if (error != null) {
                        failed.incrementAndGet();
                        out.println("failed " + number + " " + error);
                        return;
                    }
                    long total = acked.incrementAndGet();
                    if (quiet && total % 50 == 0) {
                        out.println("fed " + total);
                    }
                    if (!quiet) {
                        out.println("acked " + partition + " " + metadata.offset() + " " + number);
                    }
                });
            }
        }
        out.println("done " + acked + " " + failed);
        out.flush();
        if (failed.get() > 0 || out.checkError()) {
            System.exit(1);
        }
    }

    private static void pace(long start, long sent, long rate) {
        if (rate == Long.MAX_VALUE) {
            return;
        }
        long due = start + sent * 1_000_000_000L / rate;
        long wait = due - System.nanoTime();
        if (wait > 0) {
            java.util.concurrent.locks.LockSupport.parkNanos(wait);
        }
    }
}
