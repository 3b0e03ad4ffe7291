import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts the words of a topic in an in-memory store, as a member of a streams group (KIP-1071), until
 * standard input ends. Arguments: bootstrap servers, application id, input topic, output topic.
 */
public class StreamsApplication {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("application.id", arguments[1]);
        settings.put("group.protocol", "streams");
        settings.put("client.id", "words");
        settings.put("state.dir", System.getProperty("java.io.tmpdir"));
        settings.put("commit.interval.ms", "100");
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(arguments[2])
            .groupBy((key, word) -> word)
            .count(Materialized.as(Stores.inMemoryKeyValueStore("counts")))
            .toStream()
            .mapValues(String::valueOf)
            .to(arguments[3]);
        try (KafkaStreams streams = new KafkaStreams(builder.build(), settings)) {
            streams.setStateListener((now, before) -> System.out.println(now));
            streams.start();
            while (System.in.read() != -1) {
                // Standard input is open until the application has to end.
            }
        }
    }
}
