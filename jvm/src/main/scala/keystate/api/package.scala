import scala.language.implicitConversions
import scala.reflect.runtime.universe.TypeTag

import org.apache.spark.sql.Dataset

/** Flink's keyed state for Spark's Datasets: `import keystate._`, then `data.keyBy(f)` or
  * `data.keyed("column")`.
  */
package object keystate {
  implicit def keyedOps[T](data: Dataset[T]): KeyedOps[T] = new KeyedOps(data)

  def createTypeInformation[T: TypeTag]: TypeInformation[T] = TypeInformation.derived[T]
}
