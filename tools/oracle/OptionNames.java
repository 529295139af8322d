import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Enumeration;
import java.util.TreeMap;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;

/**
 * Prints every option that a release of JVM Hudi declares, one per line: key, default, other keys, separated by tabs.
 *
 * <p>Run: java -cp BUNDLE.jar:SPARK_JARS/* tools/oracle/OptionNames.java BUNDLE.jar
 */
public class OptionNames {
  public static void main(String[] arguments) throws Exception {
    TreeMap<String, String> lines = new TreeMap<>();
    ClassLoader loader = OptionNames.class.getClassLoader();
    Class<?> property = Class.forName("org.apache.hudi.common.config.ConfigProperty", false, loader);
    try (JarFile jar = new JarFile(arguments[0])) {
      for (Enumeration<JarEntry> entries = jar.entries(); entries.hasMoreElements(); ) {
        String name = entries.nextElement().getName();
        if (!name.startsWith("org/apache/hudi/") || !name.endsWith(".class")) {
          continue;
        }
        String className = name.substring(0, name.length() - ".class".length()).replace('/', '.');
        try {
          collect(Class.forName(className, false, loader), property, lines);
        } catch (Throwable error) {
          System.err.println(className + ": " + error);
        }
      }
    }
    lines.values().forEach(System.out::println);
  }

  private static void collect(Class<?> owner, Class<?> property, TreeMap<String, String> lines) throws Exception {
    for (Field field : owner.getDeclaredFields()) {
      if (!property.isAssignableFrom(field.getType())) {
        continue;
      }
      Object holder = null;
      if (!Modifier.isStatic(field.getModifiers())) {
        if (!owner.getName().endsWith("$")) {
          continue;
        }
        // A Scala object keeps its values in the one instance of its class.
        holder = owner.getField("MODULE$").get(null);
      }
      field.setAccessible(true);
      Object declared = field.get(holder);
      if (declared == null) {
        continue;
      }
      String key = (String) call(declared, "key");
      boolean hasDefault = (Boolean) call(declared, "hasDefaultValue");
      String value = hasDefault ? String.valueOf(call(declared, "defaultValue")) : "";
      String others = String.join(" ", new java.util.TreeSet<>((java.util.List<String>) call(declared, "getAlternatives")));
      String oneLine = value.replace("\t", "\\t").replace("\n", "\\n");
      lines.putIfAbsent(key, key + "\t" + oneLine + "\t" + others);
    }
  }

  private static Object call(Object target, String name) throws Exception {
    Method method = target.getClass().getMethod(name);
    method.setAccessible(true);
    return method.invoke(target);
  }
}
