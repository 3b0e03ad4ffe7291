import com.fasterxml.jackson.databind.*;
import java.io.*;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Load for brokers before 0.10, by the producer of 0.8.2: keys and values only. Same arguments. */
public class OldLoad {
    public static void main(String[] args) throws Exception {
        var settings = new Properties();
        settings.put("acks", "all");
        settings.put("batch.size", "65536");
        try (var in = Files.newBufferedReader(Path.of(args[2]))) {
            settings.load(in);
        }
        settings.put("bootstrap.servers", args[0]);
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            if (args[3].equals("file")) file(producer, args[1], Path.of(args[4]));
            else random(producer, args[1], Integer.parseInt(args[4]), Integer.parseInt(args[5]), Long.parseLong(args[6]));
        }
    }

    private static void file(KafkaProducer<byte[], byte[]> producer, String topic, Path path) throws Exception {
        var mapper = new ObjectMapper();
        var sent = new ArrayList<Future<RecordMetadata>>();
        try (var lines = Files.newBufferedReader(path)) {
            for (String line; (line = lines.readLine()) != null; ) {
                var record = mapper.readTree(line);
                var partition = record.get("partition").isNull() ? null : (Integer) record.get("partition").asInt();
                sent.add(producer.send(new ProducerRecord<>(topic, partition, bytes(record.get("key")), bytes(record.get("value")))));
            }
        }
        for (var each : sent) System.out.println(each.get().offset());
    }

    private static byte[] bytes(JsonNode node) throws IOException {
        return node.isNull() ? null : node.binaryValue();
    }

    private static void random(KafkaProducer<byte[], byte[]> producer, String topic, int partitions, int count, long seed) throws Exception {
        var random = new SplittableRandom(seed);
        var failure = new AtomicReference<Exception>();
        var digests = new Canonical[partitions];
        for (int i = 0; i < partitions; i++) digests[i] = new Canonical();
        var sent = new ArrayList<Future<RecordMetadata>>();
        for (int i = 0; i < count && failure.get() == null; i++) {
            int partition = random.nextInt(partitions);
            byte[] key = random.nextInt(8) == 0 ? null : bytes(random, random.nextInt(24));
            byte[] value = random.nextInt(64) == 0 ? null : bytes(random, random.nextInt(200));
            sent.add(producer.send(new ProducerRecord<>(topic, partition, key, value), (metadata, error) -> {
                if (error != null) failure.set(error);
                else digests[partition].record(metadata.offset(), -1, -1, key, value, 0);
            }));
        }
        for (var each : sent) each.get(); // this producer has no flush
        producer.close();
        if (failure.get() != null) throw new IllegalStateException("a record was not acknowledged", failure.get());
        for (int i = 0; i < partitions; i++) System.out.println(digests[i].line(i));
    }

    private static byte[] bytes(SplittableRandom random, int length) {
        var data = new byte[length];
        int half = length / 2;
        for (int i = 0; i < half; i++) data[i] = (byte) random.nextInt(256);
        Arrays.fill(data, half, length, (byte) 'x');
        return data;
    }
}
