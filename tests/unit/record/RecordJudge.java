// The Java client as the judge of record sets. One question a line on stdin, one answer on stdout.
//
//   write MAGIC CODEC BASE_OFFSET LOG_APPEND_TIME RECORDS   -> hex of the record set
//   read HEX                                                -> RECORDS with offset and timestamp type
//
// LOG_APPEND_TIME is -1 for CreateTime. RECORDS are joined by ';', their fields by ',':
// timestamp, key, value, then name and value of each header; hex, '-' is null.
// Works with kafka-clients 3.9, the last that still writes formats v0 and v1.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.TimestampType;

public class RecordJudge {
    static final HexFormat HEX = HexFormat.of();

    static byte[] bytes(String text) {
        return text.equals("-") ? null : HEX.parseHex(text);
    }

    static String hex(ByteBuffer buffer) {
        if (buffer == null) return "-";
        byte[] out = new byte[buffer.remaining()];
        buffer.duplicate().get(out);
        return HEX.formatHex(out);
    }

    static String write(String[] words) {
        byte magic = Byte.parseByte(words[1]);
        Compression codec = Compression.of(CompressionType.forId(Integer.parseInt(words[2]))).build();
        long appendTime = Long.parseLong(words[4]);
        TimestampType type = magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE
            : appendTime < 0 ? TimestampType.CREATE_TIME : TimestampType.LOG_APPEND_TIME;
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(1 << 22), magic, codec, type, Long.parseLong(words[3]), appendTime);
        for (String record : words[5].split(";")) {
            String[] fields = record.split(",", -1);
            List<Header> headers = new ArrayList<>();
            for (int i = 3; i + 1 < fields.length; i += 2)
                headers.add(new RecordHeader(
                    new String(bytes(fields[i]), StandardCharsets.UTF_8), bytes(fields[i + 1])));
            builder.append(Long.parseLong(fields[0]), bytes(fields[1]), bytes(fields[2]),
                headers.toArray(new Header[0]));
        }
        return hex(builder.build().buffer());
    }

    static String read(String[] words) {
        List<String> out = new ArrayList<>();
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(words[1])));
        for (MutableRecordBatch batch : records.batches()) {
            batch.ensureValid();
            for (Record record : batch) {
                record.ensureValid();
                StringBuilder line = new StringBuilder();
                line.append(record.offset()).append(',').append(batch.timestampType().id)
                    .append(',').append(record.timestamp())
                    .append(',').append(hex(record.key())).append(',').append(hex(record.value()));
                for (Header header : record.headers())
                    line.append(',').append(HEX.formatHex(header.key().getBytes(StandardCharsets.UTF_8)))
                        .append(',').append(header.value() == null ? "-" : HEX.formatHex(header.value()));
                out.add(line.toString());
            }
        }
        return String.join(";", out);
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ");
            String answer;
            try {
                answer = words[0].equals("write") ? write(words) : read(words);
            } catch (Exception error) {
                answer = "! " + error;
            }
            System.out.println(answer.isEmpty() ? "-" : answer);
        }
    }
}
