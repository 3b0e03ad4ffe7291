import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads a topic from its beginning to its end as of now, by the Java consumer.
 * Arguments: bootstrap servers, topic, "json" (a line a record) or "digest" (a line a partition), settings file.
 */
public class Dump {
    public static void main(String[] args) throws Exception {
        var settings = new Properties();
        settings.put("fetch.max.bytes", "16777216");
        settings.put("max.partition.fetch.bytes", "4194304");
        settings.put("max.poll.records", "20000");
        try (var in = Files.newBufferedReader(Path.of(args[3]))) {
            settings.load(in);
        }
        settings.put("bootstrap.servers", args[0]);
        boolean json = args[2].equals("json");
        var out = new PrintStream(new BufferedOutputStream(System.out, 1 << 16), false, "UTF-8");
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            var partitions = new ArrayList<TopicPartition>();
            for (var info : consumer.partitionsFor(args[1])) partitions.add(new TopicPartition(args[1], info.partition()));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            var ends = consumer.endOffsets(partitions);
            var digests = new TreeMap<Integer, Canonical>();
            for (var partition : partitions) digests.put(partition.partition(), new Canonical());
            while (!partitions.isEmpty()) {
                // A position past control records moves within poll, so it tells the end, not the records.
                partitions.removeIf(partition -> consumer.position(partition) >= ends.get(partition));
                for (var record : consumer.poll(Duration.ofMillis(200))) {
                    if (record.offset() >= ends.get(new TopicPartition(record.topic(), record.partition()))) continue;
                    if (json) out.println(line(record));
                    else add(digests.get(record.partition()), record);
                }
            }
            if (!json) digests.forEach((partition, digest) -> out.println(digest.line(partition)));
        }
        out.flush();
    }

    private static void add(Canonical digest, ConsumerRecord<byte[], byte[]> record) {
        var headers = record.headers().toArray();
        digest.record(record.offset(), record.timestamp(), record.timestampType().id, record.key(), record.value(), headers.length);
        for (var header : headers) digest.header(header.key(), header.value());
    }

    private static String line(ConsumerRecord<byte[], byte[]> record) {
        var headers = new StringJoiner(",");
        for (var header : record.headers()) {
            headers.add("[" + Canonical.quoted(header.key()) + "," + Canonical.base64(header.value()) + "]");
        }
        return Canonical.json(record.partition(), record.offset(), record.timestamp(), record.timestampType().id,
            record.key(), record.value(), headers.toString());
    }
}
