import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Copies a topic to another by transactions, with the members of a group, each a thread with a
 * producer of its own. Every third transaction is aborted and done again; each member leaves after
 * some of them, and another one takes its place.
 * Arguments: bootstrap servers, from, to, group, settings file, group protocol, members, records.
 * Prints the number of transactions committed and aborted. If a member fails, or does not end within
 * 60 s, the program ends with status 1 and a dump of all threads: their pool would keep it alive.
 */
public class ExactlyOnce {
    private static final AtomicInteger copied = new AtomicInteger();
    private static final AtomicInteger committed = new AtomicInteger();
    private static final AtomicInteger aborted = new AtomicInteger();

    public static void main(String[] args) throws Exception {
        var settings = new Properties();
        try (var in = Files.newBufferedReader(Path.of(args[4]))) {
            settings.load(in);
        }
        settings.put("bootstrap.servers", args[0]);
        int members = Integer.parseInt(args[6]), count = Integer.parseInt(args[7]);
        var threads = Executors.newFixedThreadPool(members);
        var running = new ArrayList<Future<?>>();
        for (int i = 0; i < members; i++) {
            var name = args[3] + "-" + i;
            running.add(threads.submit(() -> {
                for (int life = 0; copied.get() < count; life++) live(settings, args, name, count, life == 0 ? 3 : 1000);
                return null;
            }));
        }
        try {
            for (var each : running) each.get(250, TimeUnit.SECONDS);
        } catch (ExecutionException | TimeoutException failure) {
            System.err.println("copied " + copied + ", committed " + committed + ", aborted " + aborted);
            Thread.getAllStackTraces().forEach((thread, frames) -> {
                System.err.println(thread.getName());
                for (var frame : frames) System.err.println("    " + frame);
            });
            failure.printStackTrace();
            System.exit(1);
        }
        threads.shutdown();
        System.out.println(committed + " " + aborted);
    }

    /** One member, from its joining to its leaving after so many transactions. */
    private static void live(Properties settings, String[] args, String name, int count, int transactions) {
        var reading = new Properties();
        reading.putAll(settings);
        reading.put("group.id", args[3]);
        reading.put("group.protocol", args[5]);
        reading.put("auto.offset.reset", "earliest");
        reading.put("enable.auto.commit", "false");
        reading.put("isolation.level", "read_committed");
        reading.put("max.poll.records", "20");
        var writing = new Properties();
        writing.putAll(settings);
        writing.put("transactional.id", name);
        try (var consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer());
             var producer = new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            consumer.subscribe(List.of(args[1]));
            while (transactions > 0 && copied.get() < count) {
                var records = consumer.poll(Duration.ofMillis(100));
                if (records.isEmpty()) continue;
                transactions--;
                if (copy(consumer, producer, records, args[2], (committed.get() + aborted.get()) % 3 == 1)) copied.addAndGet(records.count());
            }
        }
    }

    private static boolean copy(KafkaConsumer<String, String> consumer, KafkaProducer<String, String> producer, ConsumerRecords<String, String> records, String to, boolean abort) {
        var offsets = new HashMap<TopicPartition, OffsetAndMetadata>();
        producer.beginTransaction();
        try {
            for (var record : records) {
                producer.send(new ProducerRecord<>(to, record.key(), record.value()));
                offsets.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
            }
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            if (!abort) {
                producer.commitTransaction();
                committed.incrementAndGet();
                return true;
            }
        } catch (CommitFailedException rebalanced) {
            // Another member has these partitions now: nothing of this may be seen.
        }
        producer.abortTransaction();
        aborted.incrementAndGet();
        for (var partition : records.partitions())
            if (consumer.assignment().contains(partition)) consumer.seek(partition, records.records(partition).get(0).offset());
        return false;
    }
}
