// Prints which versions of each API one kafka-clients jar speaks, whatever its age: one line of
//
//   key:oldest-newest[LISTENER,LISTENER] ...
//
// Listeners are told since 2.8. Unstable versions are left out where the jar knows of any.
// Run as a single source file: java -cp JAR:SLF4J ApiKeysOf.java

import java.lang.reflect.Field;

public final class ApiKeysOf {
    private static final String PACKAGE = "org.apache.kafka.common.protocol.";

    public static void main(String[] arguments) throws Exception {
        var line = new StringBuilder();
        for (Object key : Class.forName(PACKAGE + "ApiKeys").getEnumConstants()) {
            short id = ((Number) key.getClass().getField("id").get(key)).shortValue();
            short[] range = range(key, id);
            line.append(id).append(':').append(range[0]).append('-').append(range[1]);
            line.append(listeners(key)).append(' ');
        }
        System.out.println(line);
    }

    private static short[] range(Object key, short id) throws Exception {
        try {
            return new short[] {call(key, "oldestVersion"), newest(key)};
        } catch (NoSuchMethodException e) {
            // Before 0.11 the versions stood in Protocol.REQUESTS, null where one was dropped.
            Field table = Class.forName(PACKAGE + "Protocol").getDeclaredField("REQUESTS");
            table.setAccessible(true);
            var schemas = (Object[]) ((Object[]) table.get(null))[id];
            short oldest = 0;
            while (oldest < schemas.length && schemas[oldest] == null) {
                oldest++;
            }
            return new short[] {oldest, (short) (schemas.length - 1)};
        }
    }

    private static short newest(Object key) throws Exception {
        try {
            var method = key.getClass().getMethod("latestVersion", boolean.class);
            return ((Number) method.invoke(key, false)).shortValue();
        } catch (NoSuchMethodException e) {
            return call(key, "latestVersion");
        }
    }

    private static short call(Object key, String method) throws Exception {
        return ((Number) key.getClass().getMethod(method).invoke(key)).shortValue();
    }

    private static String listeners(Object key) throws Exception {
        try {
            Object type = key.getClass().getField("messageType").get(key);
            return type.getClass().getMethod("listeners").invoke(type).toString().replace(" ", "");
        } catch (NoSuchFieldException | NoSuchMethodException e) {
            return "";
        }
    }
}
