package org.apache.spark.sql.keystate.encoding

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke
import org.apache.spark.sql.catalyst.expressions.{CheckOverflow, Expression, Literal}
import org.apache.spark.sql.types.Decimal

import keystate.errors.KeystateErrors

/** Converts objects to rows as Spark's encoder does, except for decimals that would change: Spark
  * rounds a decimal with too many digits, and stores null for one that is too large unless
  * `spark.sql.ansi.enabled` is set. Here both are errors, anywhere in a value. Types without
  * decimals use Spark's encoder alone.
  */
private[keystate] object ExactDecimals {

  /** Makes rows; throws IllegalArgumentException for a decimal that does not fit its type. */
  def serializer(encoder: ExpressionEncoder[Any]): Any => InternalRow =
    if (!encoder.objSerializer.exists(_.isInstanceOf[CheckOverflow])) encoder.createSerializer()
    else {
      val exact = checked(encoder.objSerializer, "fit")
      val toRow = encoder.copy(objSerializer = exact).createSerializer()
      value =>
        try toRow(value)
        catch { case e: Exception if e.getCause.isInstanceOf[Misfit] => throw e.getCause }
    }

  /** An encoder's expression for a key, or for a column of it. */
  def ofKey(expression: Expression): Expression = checked(expression, "fitKey")

  private def checked(expression: Expression, call: String): Expression = expression.transform {
    case check: CheckOverflow =>
      val precision = Literal(check.dataType.precision)
      val scale = Literal(check.dataType.scale)
      StaticInvoke(getClass, check.dataType, call, Seq(check.child, precision, scale))
  }

  /** The number as a decimal of a type. Called by the code that Spark makes. */
  def fit(number: Decimal, precision: Int, scale: Int): Decimal = {
    val stored = fitting(number, precision, scale)
    if (stored == null) throw new Misfit(s"$number does not fit decimal($precision,$scale)")
    stored
  }

  /** Like `fit`, for keys. */
  def fitKey(number: Decimal, precision: Int, scale: Int): Decimal = {
    val stored = fitting(number, precision, scale)
    if (stored == null)
      throw KeystateErrors.keyDoesNotFit(s"$number", s"decimal($precision,$scale)")
    stored
  }

  private def fitting(number: Decimal, precision: Int, scale: Int): Decimal = {
    val stored = number.toPrecision(precision, scale)
    if (stored != null && number.scale > scale && stored != number) null else stored
  }

  private final class Misfit(message: String) extends IllegalArgumentException(message)
}
