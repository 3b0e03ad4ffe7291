import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;
import org.apache.kafka.shaded.io.opentelemetry.proto.common.v1.KeyValue;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.Metric;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.MetricsData;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.NumberDataPoint;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.ResourceMetrics;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.ScopeMetrics;

/**
 * A plugin of a broker that appends each push of client metrics (KIP-714) to the file
 * `telemetry.file`, as a line of JSON. It fails for clients whose id begins with "refused".
 */
public class Telemetry implements MetricsReporter, ClientTelemetry {
    private static final ObjectMapper JSON = new ObjectMapper();
    private Path file;

    public void configure(Map<String, ?> configs) {
        file = Path.of(configs.get("telemetry.file").toString());
    }

    public ClientTelemetryReceiver clientReceiver() {
        return this::receive;
    }

    private synchronized void receive(AuthorizableRequestContext context, ClientTelemetryPayload payload) {
        if (context.clientId().startsWith("refused"))
            throw new IllegalStateException("refused by the plugin");
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("client_id", context.clientId());
        line.put("instance", payload.clientInstanceId().toString());
        line.put("terminating", payload.isTerminating());
        List<Object> metrics = new ArrayList<>();
        try {
            for (ResourceMetrics each : MetricsData.parseFrom(payload.data()).getResourceMetricsList()) {
                line.put("resource", attributes(each.getResource().getAttributesList()));
                for (ScopeMetrics scope : each.getScopeMetricsList())
                    for (Metric metric : scope.getMetricsList())
                        metrics.add(described(metric));
            }
            line.put("metrics", metrics);
            Files.writeString(file, JSON.writeValueAsString(line) + "\n",
                StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new RuntimeException(error);
        }
    }

    private static Map<String, Object> described(Metric metric) {
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("name", metric.getName());
        out.put("kind", metric.getDataCase().toString());
        List<NumberDataPoint> points = metric.hasSum()
            ? metric.getSum().getDataPointsList() : metric.getGauge().getDataPointsList();
        if (metric.hasSum()) {
            out.put("temporality", metric.getSum().getAggregationTemporalityValue());
            out.put("monotonic", metric.getSum().getIsMonotonic());
        }
        List<Object> found = new ArrayList<>();
        for (NumberDataPoint point : points) {
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("attributes", attributes(point.getAttributesList()));
            one.put("start", point.getStartTimeUnixNano());
            one.put("time", point.getTimeUnixNano());
            one.put("value", point.hasAsInt() ? (double) point.getAsInt() : point.getAsDouble());
            found.add(one);
        }
        out.put("points", found);
        return out;
    }

    private static Map<String, String> attributes(List<KeyValue> pairs) {
        Map<String, String> out = new LinkedHashMap<>();
        for (KeyValue pair : pairs)
            out.put(pair.getKey(), pair.getValue().getStringValue());
        return out;
    }

    public void init(List<KafkaMetric> metrics) { }

    public void metricChange(KafkaMetric metric) { }

    public void metricRemoval(KafkaMetric metric) { }

    public void close() { }
}
