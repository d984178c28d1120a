package riparian;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.Scanner;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Sends a message to each partition every so many milliseconds and measures how long the answers of a partition pause.
 *
 * <p>Standard input may say {@code fill N} (sent once to each partition; {@code filled} tells when all have answered),
 * {@code mark} (pauses are counted from now on, {@code marked}) and {@code pauses} ({@code pauses P0 P1 ...}: the longest of
 * each partition since the mark in milliseconds, told once each partition has answered to what was sent after the question).
 */
public final class Pulse {
    private Pulse() {}

    private static int filled;
    private static long[] last;
    private static long[] longest;
    /** The number of the last message to each partition, and of the last that was answered. */
    private static long sent;
    private static long[] answered;

    public static void main(String[] args) throws Exception {
        Options options = new Options(args);
        int partitions = (int) options.number("partitions");
        long interval = options.number("interval-ms", 50);
        last = new long[partitions];
        longest = new long[partitions];
        answered = new long[partitions];
        Arrays.fill(last, System.nanoTime());

        Properties config = new Properties();
        config.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, options.text("bootstrap"));
        config.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, StringSerializer.class);
        config.put(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, StringSerializer.class);
        KafkaProducer<String, String> producer = new KafkaProducer<>(config);
        AtomicBoolean beats = new AtomicBoolean();
        Thread sender = new Thread(() -> send(producer, options.text("input"), partitions, interval, beats), "sender");
        sender.setDaemon(true);
        sender.start();
        Thread receiver = new Thread(() -> receive(options, partitions), "receiver");
        receiver.setDaemon(true);
        receiver.start();

        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8);
        while (lines.hasNextLine()) {
            String line = lines.nextLine();
            if (line.startsWith("fill ")) {
                for (int partition = 0; partition < partitions; partition++) {
                    producer.send(new ProducerRecord<>(options.text("input"), partition, "", line));
                }
                producer.flush();
            } else if (line.equals("mark")) {
                synchronized (Pulse.class) {
                    Arrays.fill(last, System.nanoTime());
                    Arrays.fill(longest, 0);
                }
                beats.set(true);
                say("marked");
            } else if (line.equals("pauses")) {
                say(pauses());
            }
        }
    }

    private static synchronized String pauses() throws InterruptedException {
        long asked = sent + 1;
        while (Arrays.stream(answered).anyMatch(number -> number < asked)) {
            Pulse.class.wait();
        }
        StringBuilder text = new StringBuilder("pauses");
        for (int partition = 0; partition < last.length; partition++) {
            text.append(' ').append(longest[partition]);
        }
        return text.toString();
    }

    private static void send(
            KafkaProducer<String, String> producer, String topic, int partitions, long interval, AtomicBoolean beats) {
        for (long beat = 0; ; beat++) {
            java.util.concurrent.locks.LockSupport.parkNanos(interval * 1_000_000);
            synchronized (Pulse.class) {
                sent = beat;
            }
            for (int partition = 0; partition < partitions && beats.get(); partition++) {
                producer.send(new ProducerRecord<>(topic, partition, "", "beat " + beat));
            }
        }
    }

    private static void receive(Options options, int partitions) {
        Properties config = new Properties();
        config.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, options.text("bootstrap"));
        config.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class);
        config.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class);
        config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        List<TopicPartition> all = new ArrayList<>();
        for (int partition = 0; partition < partitions; partition++) {
            all.add(new TopicPartition(options.text("output"), partition));
        }
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config)) {
            consumer.assign(all);
            while (true) {
                for (ConsumerRecord<String, String> answer : consumer.poll(Duration.ofMillis(100))) {
                    note(answer, partitions);
                }
            }
        }
    }

    private static synchronized void note(ConsumerRecord<String, String> answer, int partitions) {
        if (answer.value().equals("filled")) {
            filled++;
            if (filled % partitions == 0) {
                say("filled");
            }
            return;
        }
        if (!answer.value().endsWith(" in stock")) {
            say("error partition " + answer.key() + " answers " + answer.value());
        }
        int partition = Integer.parseInt(answer.key());
        long now = System.nanoTime();
        longest[partition] = Math.max(longest[partition], (now - last[partition]) / 1_000_000);
        last[partition] = now;
        answered[partition] = Long.parseLong(answer.value().split(" ")[1]);
        Pulse.class.notifyAll();
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
