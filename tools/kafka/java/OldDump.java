import java.io.*;
import java.util.*;
import kafka.api.PartitionOffsetRequestInfo;
import kafka.common.TopicAndPartition;
import kafka.javaapi.*;
import kafka.javaapi.consumer.SimpleConsumer;

/**
 * Dump for brokers before 0.10, by the simple consumer of 0.8.2: message format 0, one broker.
 * Arguments: bootstrap server, topic, "json" or "digest".
 */
public class OldDump {
    public static void main(String[] args) throws Exception {
        String[] address = args[0].split(",")[0].split(":");
        boolean json = args[2].equals("json");
        var out = new PrintStream(new BufferedOutputStream(System.out, 1 << 16), false, "UTF-8");
        var consumer = new SimpleConsumer(address[0], Integer.parseInt(address[1]), 30_000, 1 << 20, "dump");
        var topics = consumer.send(new TopicMetadataRequest(List.of(args[1]))).topicsMetadata();
        var numbers = new TreeSet<Integer>();
        for (var each : topics.get(0).partitionsMetadata()) numbers.add(each.partitionId());
        for (int partition : numbers) {
            long end = endOf(consumer, args[1], partition);
            var digest = new Canonical();
            for (long next = 0; next < end; ) {
                var response = consumer.fetch(new kafka.api.FetchRequestBuilder().clientId("dump").addFetch(args[1], partition, next, 4 << 20).build());
                if (response.hasError()) throw new IllegalStateException("fetch: error " + response.errorCode(args[1], partition));
                long before = next;
                for (var each : response.messageSet(args[1], partition)) {
                    if (each.offset() < next) continue; // a compressed set begins where it was written
                    var key = bytes(each.message().key());
                    var value = bytes(each.message().payload());
                    if (json) out.println(Canonical.json(partition, each.offset(), -1, -1, key, value, ""));
                    else digest.record(each.offset(), -1, -1, key, value, 0);
                    next = each.nextOffset();
                }
                if (next == before) throw new IllegalStateException("no progress at offset " + next);
            }
            if (!json) out.println(digest.line(partition));
        }
        out.flush();
        consumer.close();
    }

    private static long endOf(SimpleConsumer consumer, String topic, int partition) {
        var latest = Map.of(new TopicAndPartition(topic, partition), new PartitionOffsetRequestInfo(kafka.api.OffsetRequest.LatestTime(), 1));
        var answer = consumer.getOffsetsBefore(new kafka.javaapi.OffsetRequest(latest, kafka.api.OffsetRequest.CurrentVersion(), "dump"));
        if (answer.hasError()) throw new IllegalStateException("offsets: error " + answer.errorCode(topic, partition));
        return answer.offsets(topic, partition)[0];
    }

    private static byte[] bytes(java.nio.ByteBuffer buffer) {
        if (buffer == null) return null;
        var data = new byte[buffer.remaining()];
        buffer.get(data);
        return data;
    }
}
