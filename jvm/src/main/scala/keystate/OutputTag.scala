package keystate

import org.apache.spark.sql.Dataset

/** Names a side output: `ctx.output(tag, result)` emits to it, in addition to the main output. Tags
  * with the same name are equal.
  *
  * @param id
  *   the tag's name, not empty and not `main`
  */
final class OutputTag[T](val id: String)(implicit val typeInfo: TypeInformation[T])
    extends Serializable {

  /** Sets the function that writes this output in each micro-batch, for `data.writeOutputs`. */
  def writtenBy(write: (Dataset[T], Long) => Unit): SideWrite[T] = new SideWrite(this, write)

  override def equals(other: Any): Boolean = other match {
    case tag: OutputTag[_] => tag.id == id
    case _ => false
  }
  override def hashCode: Int = id.hashCode
  override def toString: String = s"OutputTag($id)"
}

/** A side output with the function that writes it in each micro-batch; made by
  * `tag.writtenBy(function)`.
  */
final class SideWrite[T] private[keystate] (
    val tag: OutputTag[T],
    val function: (Dataset[T], Long) => Unit
)

object OutputTag {

  /** A tag of this name. */
  def apply[T: TypeInformation](id: String): OutputTag[T] = new OutputTag[T](id)
}
