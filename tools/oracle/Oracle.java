// Answers, one line for one line, what the Java client makes of a message.
//
//   write   <TAB> Name <TAB> version <TAB> json   ->  hex of the bytes it writes
//   rewrite <TAB> Name <TAB> version <TAB> hex    ->  hex of what it writes after reading these bytes
//
// The JSON is that of Kafka's own converters. What Java refuses is answered by "! " and the reason.
// Run as a single source file: java -cp JARS Oracle.java

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;

public final class Oracle {
    private static final String PACKAGE = "org.apache.kafka.common.message.";
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();

    /** How one kind of message is read: from JSON and from bytes. */
    private record Kind(Method fromJson, Constructor<?> fromBytes) {
        static Kind of(String name) {
            try {
                Class<?> data = Class.forName(PACKAGE + name + "Data", true, loader());
                Class<?> converter = Class.forName(PACKAGE + name + "DataJsonConverter", true, loader());
                return new Kind(
                    converter.getMethod("read", JsonNode.class, short.class),
                    data.getConstructor(Readable.class, short.class));
            } catch (ReflectiveOperationException e) {
                // Schemas that end in "Data" or stand alone are named without the suffix.
                try {
                    Class<?> data = Class.forName(PACKAGE + name, true, loader());
                    Class<?> converter = Class.forName(PACKAGE + name + "JsonConverter", true, loader());
                    return new Kind(
                        converter.getMethod("read", JsonNode.class, short.class),
                        data.getConstructor(Readable.class, short.class));
                } catch (ReflectiveOperationException again) {
                    throw new IllegalArgumentException("no such message: " + name, again);
                }
            }
        }

        private static ClassLoader loader() {
            return Oracle.class.getClassLoader();
        }
    }

    public static void main(String[] arguments) throws Exception {
        var kinds = new HashMap<String, Kind>();
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 20);
        try (var out = new PrintStream(new java.io.BufferedOutputStream(System.out, 1 << 20), false)) {
            for (String line; (line = in.readLine()) != null; ) {
                out.println(answer(line.split("\t", 4), kinds));
            }
        }
    }

    private static String answer(String[] ask, Map<String, Kind> kinds) {
        try {
            Kind kind = kinds.computeIfAbsent(ask[1], Kind::of);
            short version = Short.parseShort(ask[2]);
            return HEX.formatHex(write(read(ask[0], kind, version, ask[3]), version));
        } catch (InvocationTargetException e) {
            return refusal(e.getCause());
        } catch (Exception e) {
            return refusal(e);
        }
    }

    private static Message read(String how, Kind kind, short version, String payload) throws Exception {
        if (how.equals("write")) {
            return (Message) kind.fromJson().invoke(null, MAPPER.readTree(payload), version);
        }
        ByteBuffer bytes = ByteBuffer.wrap(HEX.parseHex(payload));
        var message = (Message) kind.fromBytes().newInstance(new ByteBufferAccessor(bytes), version);
        if (bytes.hasRemaining()) {
            throw new IllegalArgumentException(bytes.remaining() + " bytes left over");
        }
        return message;
    }

    private static byte[] write(Message message, short version) {
        var cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException("the size told is not the size written");
        }
        return buffer.array();
    }

    private static String refusal(Throwable cause) {
        return "! " + cause.toString().replace('\n', ' ').replace('\r', ' ');
    }
}
