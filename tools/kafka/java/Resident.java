import java.io.*;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Runs main classes one after the other in one JVM, for tools/kafka/resident.py.
 * A request is the number of words, then each word. A response is 0 and the output, or 1 and the
 * trace of an exception. Numbers have 32 bits; strings are UTF-8, preceded by their length in bytes.
 * The JVM exits at the end of its input.
 */
public class Resident {
    public static void main(String[] args) throws Exception {
        var requests = new DataInputStream(new BufferedInputStream(System.in));
        var answers = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out)));
        System.setOut(System.err);
        for (String[] words; (words = next(requests)) != null; ) {
            var said = new ByteArrayOutputStream();
            var out = new PrintStream(said, false, StandardCharsets.UTF_8);
            System.setOut(out);
            int status = 0;
            try {
                var main = Class.forName(words[0]).getMethod("main", String[].class);
                main.invoke(null, (Object) Arrays.copyOfRange(words, 1, words.length));
            } catch (InvocationTargetException e) {
                status = 1;
                e.getCause().printStackTrace(out);
            }
            out.flush();
            System.setOut(System.err);
            answers.writeInt(status);
            answers.writeInt(said.size());
            said.writeTo(answers);
            answers.flush();
        }
        System.exit(0); // a program may leave a thread running
    }

    private static String[] next(DataInputStream in) throws IOException {
        String[] words;
        try {
            words = new String[in.readInt()];
        } catch (EOFException e) {
            return null;
        }
        for (int i = 0; i < words.length; i++) words[i] = new String(in.readNBytes(in.readInt()), StandardCharsets.UTF_8);
        return words;
    }
}
