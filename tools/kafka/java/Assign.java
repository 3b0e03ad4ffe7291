import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.*;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.*;

/**
 * Divides partitions by Java's own assignors: one JSON line of its standard input, one of its output.
 * Given {"assignor": name, "topics": {name: [[rack of a replica, ...] of each partition, ...]},
 *        "members": {id: {"subscription": hex, "instance": id or null}}}
 * Printed {"assigned": {id: hex}, "subscriptions": {id: what Java writes after reading it},
 *         "cpuNanos": CPU time of the assignor's thread}.
 */
public class Assign {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        var answers = System.out;
        System.setOut(System.err); // where assignors log what members contradict each other about
        var in = new BufferedReader(new InputStreamReader(System.in));
        var out = new StringBuilder();
        for (String line; (line = in.readLine()) != null; ) {
            if (!line.isBlank()) out.append(JSON.writeValueAsString(answer(JSON.readTree(line)))).append('\n');
        }
        answers.print(out);
        answers.flush();
    }

    private static Map<String, Object> answer(JsonNode asked) {
        var subscriptions = new LinkedHashMap<String, Subscription>();
        var rewritten = new LinkedHashMap<String, String>();
        asked.get("members").fields().forEachRemaining(member -> {
            var data = HEX.parseHex(member.getValue().get("subscription").asText());
            var subscription = ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(data));
            var instance = member.getValue().get("instance");
            subscription.setGroupInstanceId(instance.isNull() ? Optional.empty() : Optional.of(instance.asText()));
            subscriptions.put(member.getKey(), subscription);
            rewritten.put(member.getKey(), hex(ConsumerProtocol.serializeSubscription(subscription)));
        });
        var assigned = new LinkedHashMap<String, String>();
        var assignor = assignor(asked.get("assignor").asText());
        var cluster = cluster(asked.get("topics"));
        var thread = java.lang.management.ManagementFactory.getThreadMXBean();
        long begin = thread.getCurrentThreadCpuTime();
        var group = assignor.assign(cluster, new GroupSubscription(subscriptions)).groupAssignment();
        long took = thread.getCurrentThreadCpuTime() - begin;
        group.forEach((id, assignment) -> assigned.put(id, hex(ConsumerProtocol.serializeAssignment(assignment))));
        return Map.of("assigned", assigned, "subscriptions", rewritten, "cpuNanos", took);
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException(name);
        };
    }

    /** A node for each rack: assignors see no more of a replica than that. */
    private static Cluster cluster(JsonNode topics) {
        var nodes = new LinkedHashMap<String, Node>();
        var partitions = new ArrayList<PartitionInfo>();
        topics.fields().forEachRemaining(topic -> {
            for (int i = 0; i < topic.getValue().size(); i++) {
                var replicas = new ArrayList<Node>();
                for (var rack : topic.getValue().get(i)) replicas.add(node(nodes, rack.asText()));
                if (replicas.isEmpty()) replicas.add(node(nodes, null));
                var array = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), i, array[0], array, array));
            }
        });
        return new Cluster("cluster", nodes.values(), partitions, Set.of(), Set.of());
    }

    private static Node node(Map<String, Node> nodes, String rack) {
        return nodes.computeIfAbsent(rack, name -> new Node(nodes.size(), "broker", 9092, name));
    }

    private static String hex(ByteBuffer buffer) {
        var data = new byte[buffer.remaining()];
        buffer.duplicate().get(data);
        return HEX.formatHex(data);
    }
}
