import com.fasterxml.jackson.databind.*;
import java.io.*;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes records by the Java producer.
 * Arguments: bootstrap servers, topic, settings file, and then
 *   file PATH                       the JSON lines of tools.kafka.java.Record; prints the offset of each
 *   random PARTITIONS COUNT SEED    seeded records; prints the digest of what each partition acknowledged
 *   plain PARTITIONS COUNT SEED     the same without headers, for brokers before 0.11
 */
public class Load {
    public static void main(String[] args) throws Exception {
        var settings = new Properties();
        settings.put("acks", "all");
        settings.put("linger.ms", "5");
        settings.put("batch.size", "65536");
        try (var in = Files.newBufferedReader(Path.of(args[2]))) {
            settings.load(in);
        }
        settings.put("bootstrap.servers", args[0]);
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            if (args[3].equals("file")) file(producer, args[1], Path.of(args[4]));
            else random(producer, args[1], Integer.parseInt(args[4]), Integer.parseInt(args[5]), Long.parseLong(args[6]), args[3].equals("random"));
        }
    }

    private static void file(KafkaProducer<byte[], byte[]> producer, String topic, Path path) throws Exception {
        var mapper = new ObjectMapper();
        var sent = new ArrayList<Future<RecordMetadata>>();
        try (var lines = Files.newBufferedReader(path)) {
            for (String line; (line = lines.readLine()) != null; ) {
                var record = mapper.readTree(line);
                var partition = record.get("partition").isNull() ? null : (Integer) record.get("partition").asInt();
                var timestamp = record.get("timestamp").isNull() ? null : (Long) record.get("timestamp").asLong();
                var made = new ProducerRecord<>(topic, partition, timestamp, bytes(record.get("key")), bytes(record.get("value")));
                for (var header : record.get("headers")) made.headers().add(header.get(0).asText(), bytes(header.get(1)));
                sent.add(producer.send(made));
            }
        }
        var out = new StringBuilder();
        for (var each : sent) out.append(each.get().offset()).append('\n');
        System.out.print(out);
    }

    private static byte[] bytes(JsonNode node) throws IOException {
        return node.isNull() ? null : node.binaryValue();
    }

    private static void random(KafkaProducer<byte[], byte[]> producer, String topic, int partitions, int count, long seed, boolean headers) {
        var random = new SplittableRandom(seed);
        var failure = new AtomicReference<Exception>();
        var digests = new Canonical[partitions];
        for (int i = 0; i < partitions; i++) digests[i] = new Canonical();
        long start = 1_600_000_000_000L;
        for (int i = 0; i < count && failure.get() == null; i++) {
            int partition = random.nextInt(partitions);
            byte[] key = random.nextInt(8) == 0 ? null : bytes(random, random.nextInt(24));
            byte[] value = random.nextInt(64) == 0 ? null : bytes(random, random.nextInt(200));
            var record = new ProducerRecord<>(topic, partition, start + i - random.nextInt(1000), key, value);
            for (int n = headers ? random.nextInt(8) - 5 : 0; n > 0; n--) { // two in eight have headers
                byte[] data = random.nextInt(4) == 0 ? null : bytes(random, random.nextInt(16));
                record.headers().add(new RecordHeader("name-" + random.nextInt(2), data));
            }
            // Callbacks of a partition come in offset order, all on the producer's one thread.
            producer.send(record, (metadata, error) -> {
                if (error != null) {
                    failure.set(error);
                    return;
                }
                var named = record.headers().toArray();
                int type = metadata.timestamp() == record.timestamp() ? 0 : 1;
                digests[partition].record(metadata.offset(), metadata.timestamp(), type, key, value, named.length);
                for (var header : named) digests[partition].header(header.key(), header.value());
            });
        }
        producer.flush();
        if (failure.get() != null) throw new IllegalStateException("a record was not acknowledged", failure.get());
        for (int i = 0; i < partitions; i++) System.out.println(digests[i].line(i));
    }

    /** Half of them random, half of them repeated, so that compression has something to do. */
    private static byte[] bytes(SplittableRandom random, int length) {
        var data = new byte[length];
        int half = length / 2;
        for (int i = 0; i < half; i++) data[i] = (byte) random.nextInt(256);
        Arrays.fill(data, half, length, (byte) 'x');
        return data;
    }
}
