import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.Scanner;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads and acknowledges records in a new share group, for each line on standard input: topic,
 * group, number of records, "sync" or "async". Prints a line each time: CPU microseconds per record
 * of this process, seconds, records, bytes of all values.
 */
public class ShareGroup {
    public static void main(String[] arguments) {
        OperatingSystemMXBean system =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        Scanner input = new Scanner(System.in);
        while (input.hasNextLine()) {
            String[] words = input.nextLine().split(" ");
            Properties settings = new Properties();
            settings.put("bootstrap.servers", arguments[0]);
            settings.put("group.id", words[1]);
            settings.put("share.acknowledgement.mode", "explicit");
            settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
            settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
            long wanted = Long.parseLong(words[2]);
            boolean sync = words[3].equals("sync");
            long cpu = system.getProcessCpuTime();
            long began = System.nanoTime();
            long records = 0;
            long bytes = 0;
            try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(settings)) {
                consumer.subscribe(List.of(words[0]));
                while (records < wanted) {
                    ConsumerRecords<byte[], byte[]> polled = consumer.poll(Duration.ofSeconds(1));
                    for (ConsumerRecord<byte[], byte[]> record : polled) {
                        bytes += record.value().length;
                        records++;
                        consumer.acknowledge(record, AcknowledgeType.ACCEPT);
                    }
                    if (sync) {
                        consumer.commitSync();
                    } else {
                        consumer.commitAsync();
                    }
                }
            }
            double seconds = (System.nanoTime() - began) / 1e9;
            double microseconds = (system.getProcessCpuTime() - cpu) / 1e3 / records;
            System.out.println(microseconds + " " + seconds + " " + records + " " + bytes);
        }
    }
}
