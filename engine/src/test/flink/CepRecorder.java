import java.io.PrintStream;
import java.time.Duration;
import java.util.*;
import java.util.stream.*;
import org.apache.flink.cep.Event;
import org.apache.flink.cep.pattern.GroupPattern;
import org.apache.flink.cep.pattern.MalformedPatternException;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.cep.utils.NFATestHarness;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Draws patterns and events, and records what Flink's CEP finds: a line of JSON for each case. With
 * flink-cep and its tests jar, and those that these need, on the class path:
 * {@code java -cp 'lib/*' CepRecorder.java CASES > flink-cep.jsonl}. Patterns that end with an absent
 * part are left out, for Flink's harness loses what it decides by time.
 */
public class CepRecorder {
  static final int CONDITIONS = 4;
  static Random chance;
  static List<Set<Integer>> holds;
  static int names;

  static boolean often(int percent) {
    return chance.nextInt(100) < percent;
  }

  static SimpleCondition<Event> condition(int number) {
    List<Set<Integer>> table = holds;
    return SimpleCondition.of(event -> table.get(event.getId()).contains(number));
  }

  /** A pattern with one part more, and the part as JSON. */
  record Grown(Pattern<Event, ?> pattern, String json, boolean optional) {}

  static final String[] SKIPS = {"none", "others", "any"};

  static Grown rows(Pattern<Event, ?> before, boolean inGroup) {
    String name = "p" + ++names;
    int skips = before == null ? 2 : chance.nextInt(3);
    Pattern<Event, ?> part =
        before == null
            ? Pattern.<Event>begin(name)
            : skips == 0 ? before.next(name) : skips == 1 ? before.followedBy(name) : before.followedByAny(name);
    Integer where = chance.nextInt(CONDITIONS);
    Pattern<Event, Event> own = (Pattern<Event, Event>) (Pattern) part;
    own = own.where(condition(where));
    int least = 1;
    Integer most = 1;
    boolean optional = often(20), greedy = false;
    int between = 1;
    Integer until = null;
    if (often(50)) {
      least = 1 + chance.nextInt(2);
      most = often(50) ? null : least + chance.nextInt(2);
      own = most == null ? own.timesOrMore(least) : own.times(least, most);
      between = inGroup && before == null ? 1 : chance.nextInt(3);
      if (between == 0) own = own.consecutive();
      if (between == 2) own = own.allowCombinations();
      if (between != 2 && often(25)) {
        own = own.greedy();
        greedy = true;
      }
      if (most == null && !greedy && often(25)) {
        until = chance.nextInt(CONDITIONS);
        own = own.until(condition(until));
      }
    }
    if (optional) own = own.optional();
    return new Grown(own, json("rows", name, where, skips, least, most, optional, between, greedy, until, ""), optional);
  }

  static Grown group(Pattern<Event, ?> before) {
    Grown first = rows(null, true);
    Grown second = rows(first.pattern, true);
    Pattern<Event, Event> inner = (Pattern<Event, Event>) (Pattern) second.pattern;
    int skips = before == null ? 2 : chance.nextInt(3);
    GroupPattern<Event, Event> own =
        before == null
            ? Pattern.begin(inner)
            : skips == 0
                ? ((Pattern<Event, Event>) (Pattern) before).next(inner)
                : skips == 1
                    ? ((Pattern<Event, Event>) (Pattern) before).followedBy(inner)
                    : ((Pattern<Event, Event>) (Pattern) before).followedByAny(inner);
    int least = 1;
    Integer most = 1;
    int between = 1;
    Pattern<Event, Event> made = own;
    if (often(60)) {
      least = 1 + chance.nextInt(2);
      most = often(50) ? null : least + chance.nextInt(2);
      made = most == null ? own.timesOrMore(least) : own.times(least, most);
    }
    String parts = first.json + "," + second.json;
    return new Grown(made, json("group", "", null, skips, least, most, false, between, false, null, parts), false);
  }

  static String json(String kind, String name, Integer where, int skips, int least, Integer most,
      boolean optional, int between, boolean greedy, Integer until, String parts) {
    return String.format(
        "{\"kind\":\"%s\",\"name\":\"%s\",\"where\":%s,\"skips\":\"%s\",\"least\":%d,\"most\":%s,"
            + "\"optional\":%s,\"between\":\"%s\",\"greedy\":%s,\"until\":%s,\"parts\":[%s]}",
        kind, name, where, SKIPS[skips], least, most, optional, SKIPS[between], greedy, until, parts);
  }

  static String draw() throws Exception {
    names = 0;
    int size = chance.nextInt(8);
    holds = new ArrayList<>();
    List<Long> times = new ArrayList<>();
    long time = 10;
    for (int i = 0; i < size; i++) {
      holds.add(IntStream.range(0, CONDITIONS).filter(c -> often(40)).boxed().collect(Collectors.toSet()));
      times.add(time);
      time += chance.nextInt(3);
    }
    Pattern<Event, ?> pattern = null;
    List<String> parts = new ArrayList<>();
    int count = 1 + chance.nextInt(3);
    for (int i = 0; i < count; i++) {
      Grown grown = often(20) ? group(pattern) : rows(pattern, false);
      pattern = grown.pattern;
      parts.add(grown.json);
      if (i + 1 < count && !grown.optional && !grown.json.contains("\"group\"") && often(30)) {
        String name = "p" + ++names;
        int where = chance.nextInt(CONDITIONS);
        boolean atOnce = often(40);
        pattern = atOnce ? pattern.notNext(name) : pattern.notFollowedBy(name);
        pattern = ((Pattern<Event, Event>) (Pattern) pattern).where(condition(where));
        parts.add(json(atOnce ? "at_once" : "absent", name, where, 0, 1, 1, false, 1, false, null, ""));
      }
    }
    Integer within = often(35) ? 2 + chance.nextInt(8) : null;
    if (within != null) pattern = pattern.within(Duration.ofMillis(within));
    NFATestHarness harness = NFATestHarness.forPattern(pattern).build();
    List<String> matches = new ArrayList<>();
    for (int i = 0; i < size; i++) {
      Event event = new Event(i, "e", 0);
      for (Map<String, List<Event>> match : harness.consumeRecord(new StreamRecord<>(event, times.get(i)))) {
        matches.add(match.entrySet().stream()
            .flatMap(e -> e.getValue().stream().map(v -> v.getId() + e.getKey()))
            .sorted().collect(Collectors.joining(" ")));
      }
    }
    Collections.sort(matches);
    return String.format(
        "{\"parts\":[%s],\"within\":%s,\"times\":%s,\"holds\":%s,\"matches\":%s}",
        String.join(",", parts), within, times, holds,
        matches.stream().map(m -> "\"" + m + "\"").collect(Collectors.toList()));
  }

  public static void main(String[] arguments) throws Exception {
    PrintStream out = System.out;
    int cases = Integer.parseInt(arguments[0]);
    int recorded = 0;
    for (int seed = 0; recorded < cases; seed++) {
      chance = new Random(seed);
      try {
        out.println(draw());
        recorded++;
      } catch (MalformedPatternException | UnsupportedOperationException e) {
        // Flink refuses it.
      }
    }
    out.flush();
    System.exit(0); // Flink leaves threads behind
  }
}
