/*
 * Makes tests/unit/format/golden_bloom.json: filter texts by Hudi's own classes for small key sets.
 *
 *     java -cp hudi-spark3.5-bundle_2.12-1.2.0.jar tools/oracle/BloomGolden.java > tests/unit/format/golden_bloom.json
 *
 * The keys are a function of (alphabet, first, count) that tests/unit/format/test_bloom.py repeats:
 * key i has 1 + (7 * i) % 40 characters, and character j of it is alphabet[(i * 31 + j * 17 + i * j) % size],
 * followed by the decimal number i so that keys differ.
 */

import java.util.ArrayList;
import java.util.List;
import org.apache.hudi.common.bloom.BloomFilter;
import org.apache.hudi.common.bloom.BloomFilterFactory;

public class BloomGolden {

  static final String ASCII = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_:,./ ~";
  // One-, two-, three- and four-byte UTF-8: every tail length meets bytes above 0x7f.
  static final String WIDE = "z\u00df\u00e9\u044f\u20ac\u4e2d\u6587\ud83d\ude80x\ud834\udd1e\u0001";

  record Case(String name, String alphabet, int count, String kind, int entries, double fpp, int max) {}

  static final List<Case> CASES = List.of(
      new Case("simple_ascii", "ascii", 40, "SIMPLE", 50, 0.001, 0),
      new Case("simple_wide", "wide", 40, "SIMPLE", 50, 0.001, 0),
      new Case("simple_empty", "ascii", 0, "SIMPLE", 10, 0.01, 0),
      new Case("simple_overfull", "wide", 120, "SIMPLE", 20, 1e-9, 0),
      new Case("simple_one_entry", "ascii", 3, "SIMPLE", 1, 0.5, 0),
      new Case("dynamic_empty", "ascii", 0, "DYNAMIC_V0", 10, 0.01, 20),
      new Case("dynamic_one_row", "ascii", 39, "DYNAMIC_V0", 40, 1e-6, 80),
      new Case("dynamic_row_exactly_full", "wide", 40, "DYNAMIC_V0", 40, 1e-6, 80),
      new Case("dynamic_second_row_opened", "wide", 41, "DYNAMIC_V0", 40, 1e-6, 80),
      new Case("dynamic_last_row_exactly_full", "ascii", 80, "DYNAMIC_V0", 40, 1e-6, 80),
      new Case("dynamic_first_key_over_maximum", "ascii", 81, "DYNAMIC_V0", 40, 1e-6, 80),
      new Case("dynamic_second_key_over_maximum", "ascii", 82, "DYNAMIC_V0", 40, 1e-6, 80),
      new Case("dynamic_round_robin", "wide", 211, "DYNAMIC_V0", 20, 1e-4, 70),
      new Case("dynamic_maximum_below_one_row", "ascii", 60, "DYNAMIC_V0", 25, 1e-4, 10),
      new Case("dynamic_maximum_not_a_multiple", "ascii", 130, "DYNAMIC_V0", 30, 1e-3, 100));

  static String key(String alphabet, int i) {
    int[] points = alphabet.codePoints().toArray();
    StringBuilder text = new StringBuilder();
    int length = 1 + (7 * i) % 40;
    for (int j = 0; j < length; j++) {
      text.appendCodePoint(points[(i * 31 + j * 17 + i * j) % points.length]);
    }
    return text.append(i).toString();
  }

  static String quote(String text) {
    StringBuilder out = new StringBuilder("\"");
    for (char c : text.toCharArray()) {
      out.append(c < 0x20 || c > 0x7e || c == '"' || c == '\\' ? String.format("\\u%04x", (int) c) : String.valueOf(c));
    }
    return out.append('"').toString();
  }

  public static void main(String[] args) {
    List<String> lines = new ArrayList<>();
    for (Case c : CASES) {
      BloomFilter filter = BloomFilterFactory.createBloomFilter(c.entries, c.fpp, c.max, c.kind);
      String alphabet = c.alphabet.equals("ascii") ? ASCII : WIDE;
      for (int i = 0; i < c.count; i++) {
        filter.add(key(alphabet, i));
      }
      lines.add(String.format(
          "  {\"name\": %s, \"alphabet\": %s, \"count\": %d, \"kind\": %s, \"num_entries\": %d, \"fpp\": %s,%n"
              + "   \"max_entries\": %d,%n   \"text\": %s}",
          quote(c.name), quote(alphabet), c.count, quote(c.kind), c.entries, c.fpp, c.max,
          quote(filter.serializeToString())));
    }
    System.out.println("[\n" + String.join(",\n", lines) + "\n]");
  }
}
