import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.coordinator.group.api.streams.StreamsGroupTopologyDescription;
import org.apache.kafka.coordinator.group.api.streams.StreamsGroupTopologyDescriptionPlugin;

/**
 * Keeps the topology descriptions of streams groups in memory (KIP-1331). It is also a Java agent that
 * does nothing, because the jar of an agent is on the class path of a broker that names it.
 */
public class TopologyPlugin implements StreamsGroupTopologyDescriptionPlugin {
    private final Map<String, StreamsGroupTopologyDescription> topologies = new ConcurrentHashMap<>();

    public static void premain(String arguments) {
    }

    @Override
    public void configure(Map<String, ?> configs) {
    }

    @Override
    public CompletableFuture<Void> setTopology(
            String group, int epoch, StreamsGroupTopologyDescription topology) {
        topologies.put(group + " " + epoch, topology);
        return CompletableFuture.completedFuture(null);
    }

    @Override
    public CompletableFuture<Void> deleteTopology(String group) {
        topologies.keySet().removeIf(key -> key.startsWith(group + " "));
        return CompletableFuture.completedFuture(null);
    }

    @Override
    public CompletableFuture<StreamsGroupTopologyDescription> getTopology(String group, int epoch) {
        return CompletableFuture.completedFuture(topologies.get(group + " " + epoch));
    }

    @Override
    public void close() {
    }
}
