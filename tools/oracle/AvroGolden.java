/*
 * Makes tests/unit/format/schema/golden_avro.json: the Avro schemas that Hudi makes of Spark schemas.
 *
 *     java -cp <hudi-spark3.5-bundle_2.12-1.2.0.jar and the jars of pyspark 3.5> tools/oracle/AvroGolden.java
 *
 * tests/unit/format/schema/test_avro_arrow.py holds the same columns as Arrow schemas, by the names of the cases.
 */

import java.util.ArrayList;
import java.util.List;
import org.apache.hudi.HoodieSchemaConversionUtils;
import org.apache.hudi.common.schema.HoodieSchema;
import org.apache.hudi.common.schema.HoodieSchemaUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

public class AvroGolden {

  static final List<String> LINES = new ArrayList<>();

  static DataType decimal(int precision, int scale) {
    return DataTypes.createDecimalType(precision, scale);
  }

  static DataType list(DataType element, boolean nullable) {
    return DataTypes.createArrayType(element, nullable);
  }

  static DataType map(DataType value, boolean nullable) {
    return DataTypes.createMapType(DataTypes.StringType, value, nullable);
  }

  static void add(String name, String tableName, StructType columns) {
    var names = HoodieSchemaConversionUtils.getRecordNameAndNamespace(tableName);
    HoodieSchema schema = HoodieSchemaConversionUtils.convertStructTypeToHoodieSchema(columns, names._1(), names._2());
    LINES.add(String.format("  {\"name\": \"%s\", \"table_name\": \"%s\",%n   \"avro\": %s,%n   \"with_meta\": %s}",
        name, tableName, schema, HoodieSchemaUtils.addMetadataFields(schema)));
  }

  public static void main(String[] args) {
    StructType point = new StructType()
        .add("x", DataTypes.IntegerType, true)
        .add("deep", new StructType().add("price", decimal(7, 3), true), true)
        .add("label", DataTypes.StringType, false);
    add("flat", "trips", new StructType()
        .add("id", DataTypes.StringType, false)
        .add("blob", DataTypes.BinaryType, true)
        .add("small", DataTypes.ShortType, true)
        .add("whole", DataTypes.IntegerType, true)
        .add("large", DataTypes.LongType, false)
        .add("single", DataTypes.FloatType, true)
        .add("real", DataTypes.DoubleType, true)
        .add("flag", DataTypes.BooleanType, true)
        .add("day", DataTypes.DateType, true)
        .add("at", DataTypes.TimestampType, true)
        .add("local", DataTypes.TimestampNTZType, true));
    add("decimals", "trips", new StructType()
        .add("one", decimal(1, 0), true)
        .add("two", decimal(2, 2), true)
        .add("three", decimal(3, 1), true)
        .add("ten", decimal(10, 2), true)
        .add("eighteen", decimal(18, 9), true)
        .add("twentyfive", decimal(25, 5), false)
        .add("most", decimal(38, 38), true));
    add("nested", "trips", new StructType()
        .add("st", point, true)
        .add("required", point, false)
        .add("longs", list(DataTypes.LongType, true), true)
        .add("full", list(DataTypes.LongType, false), false)
        .add("points", list(point, true), true)
        .add("grid", list(list(decimal(4, 1), true), true), true)
        .add("prices", map(decimal(38, 0), true), true)
        .add("places", map(point, false), true)
        .add("same", new StructType().add("same", new StructType().add("same", decimal(5, 0), true), true), true));
    add("other_letters", "1 t\u00e4b.le-x", new StructType().add("gr\u00f6\u00dfe", DataTypes.IntegerType, true));
    System.out.println("[\n" + String.join(",\n", LINES) + "\n]");
  }
}
