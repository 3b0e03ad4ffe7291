import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Base64;

/** The canonical bytes of a record and the digest of a partition: tools/kafka/canonical.py in Java. */
final class Canonical {
    private final MessageDigest hash = newHash();
    private byte[] buffer = new byte[4096];
    private int used;
    private long count;

    private static MessageDigest newHash() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (java.security.NoSuchAlgorithmException e) {
            throw new AssertionError(e);
        }
    }

    /** Begin a record; follow with one header(...) for each of its {@code headers}. */
    void record(long offset, long timestamp, int timestampType, byte[] key, byte[] value, int headers) {
        count++;
        int64(offset);
        int64(timestamp);
        room(1);
        buffer[used++] = (byte) timestampType;
        bytes(key);
        bytes(value);
        int32(headers);
    }

    void header(String name, byte[] value) {
        bytes(name.getBytes(StandardCharsets.UTF_8));
        bytes(value);
    }

    /** The line {@code partition count sha256}; ends this digest. */
    String line(int partition) {
        flush();
        var hex = new StringBuilder();
        for (byte each : hash.digest()) hex.append(String.format("%02x", each));
        return partition + " " + count + " " + hex;
    }

    private void bytes(byte[] data) {
        int32(data == null ? -1 : data.length);
        if (data == null) return;
        if (data.length > buffer.length) {
            flush();
            hash.update(data);
            return;
        }
        room(data.length);
        System.arraycopy(data, 0, buffer, used, data.length);
        used += data.length;
    }

    private void int32(int number) {
        room(4);
        for (int shift = 24; shift >= 0; shift -= 8) buffer[used++] = (byte) (number >> shift);
    }

    private void int64(long number) {
        int32((int) (number >> 32));
        int32((int) number);
    }

    private void room(int size) {
        if (used + size > buffer.length) flush();
    }

    private void flush() {
        hash.update(buffer, 0, used);
        used = 0;
    }

    /** A record as one JSON line; {@code headers} is the inside of the JSON array. */
    static String json(int partition, long offset, long timestamp, int timestampType, byte[] key, byte[] value, String headers) {
        return "{\"partition\":" + partition + ",\"offset\":" + offset + ",\"timestamp\":" + timestamp
            + ",\"timestampType\":" + timestampType + ",\"key\":" + base64(key) + ",\"value\":" + base64(value)
            + ",\"headers\":[" + headers + "]}";
    }

    /** A JSON string of the base64, or null. */
    static String base64(byte[] data) {
        return data == null ? "null" : '"' + Base64.getEncoder().encodeToString(data) + '"';
    }

    /** A JSON string of any text. */
    static String quoted(String text) {
        var out = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            if (each == '"' || each == '\\' || each < ' ') out.append(String.format("\\u%04x", (int) each));
            else out.append(each);
        }
        return out.append('"').toString();
    }
}
