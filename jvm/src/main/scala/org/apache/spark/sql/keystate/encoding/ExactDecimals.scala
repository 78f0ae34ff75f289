package org.apache.spark.sql.keystate.encoding

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke
import org.apache.spark.sql.catalyst.expressions.{CheckOverflow, Literal}
import org.apache.spark.sql.types.Decimal

/** Makes rows of objects as Spark's encoder does, but for decimals that would not be kept as they
  * are: Spark rounds one with too many digits, and one that is too large is null to it unless
  * `spark.sql.ansi.enabled` is set. Here both are errors, wherever in a value they are. What has no
  * decimals is left to Spark alone.
  */
private[keystate] object ExactDecimals {

  /** Makes rows; throws IllegalArgumentException for a decimal that does not fit its type. */
  def serializer(encoder: ExpressionEncoder[Any]): Any => InternalRow = {
    var found = false
    val exact = encoder.objSerializer.transform { case check: CheckOverflow =>
      found = true
      val precision = Literal(check.dataType.precision)
      val scale = Literal(check.dataType.scale)
      StaticInvoke(getClass, check.dataType, "fit", Seq(check.child, precision, scale))
    }
    if (!found) encoder.createSerializer()
    else {
      val toRow = encoder.copy(objSerializer = exact).createSerializer()
      value =>
        try toRow(value)
        catch { case e: Exception if e.getCause.isInstanceOf[Misfit] => throw e.getCause }
    }
  }

  /** The number as a decimal of a type. Called by the code that Spark makes. */
  def fit(number: Decimal, precision: Int, scale: Int): Decimal = {
    val stored = number.toPrecision(precision, scale)
    if (stored == null || (number.scale > scale && stored != number))
      throw new Misfit(s"$number does not fit decimal($precision,$scale)")
    stored
  }

  private final class Misfit(message: String) extends IllegalArgumentException(message)
}
