import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.common.GroupState;

/**
 * Lists all groups, describes them and fetches their offsets, once for each line on standard input.
 * Prints a line each time: milliseconds, groups, groups described as empty, committed offsets.
 */
public class AdminGroups {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        try (Admin admin = Admin.create(settings)) {
            admin.describeCluster().nodes().get();
            while (System.in.read() == '\n') {
                long began = System.nanoTime();
                Collection<GroupListing> listed =
                    admin.listGroups(ListGroupsOptions.forConsumerGroups()).all().get();
                List<String> names =
                    listed.stream().map(GroupListing::groupId).collect(Collectors.toList());
                long empty = admin.describeConsumerGroups(names).all().get().values().stream()
                    .filter(group -> group.groupState() == GroupState.EMPTY).count();
                Map<String, ListConsumerGroupOffsetsSpec> wanted = new HashMap<>();
                for (String name : names) {
                    wanted.put(name, new ListConsumerGroupOffsetsSpec());
                }
                long offsets = admin.listConsumerGroupOffsets(wanted).all().get().values().stream()
                    .mapToLong(Map::size).sum();
                double milliseconds = (System.nanoTime() - began) / 1e6;
                System.out.println(milliseconds + " " + names.size() + " " + empty + " " + offsets);
            }
        }
    }
}
