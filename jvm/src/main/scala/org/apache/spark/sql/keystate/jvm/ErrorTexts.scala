package org.apache.spark.sql.keystate.jvm

/** Texts about errors of a function. */
private[jvm] object ErrorTexts {
  private final val MostText = 20000 // characters of a message, and of a trace
  private val Keystate = "org.apache.spark.sql.keystate."
  private val Calling = Seq("GuardedCalls", "OverlappingCalls") // of functions
    .map(name => s"${Keystate}jvm.$name")
  // The frames between a function and its caller; Keystate itself calls it within Scala's methods.
  private val Own = Seq(Keystate, "keystate.stream.", "keystate.windows.", "scala.")

  def messageOf(error: Throwable): String = bounded(String.valueOf(error.getMessage))

  /** The part of the stack trace that is in the function; causes only with their messages. */
  def traceOf(error: Throwable): String = {
    val text = new StringBuilder(error.toString)
    val withinCall = error.getStackTrace.takeWhile(!calls(_))
    withinCall.reverse.dropWhile(isOfKeystate).reverse.foreach(at => text.append(s"\n\tat $at"))
    Iterator.iterate(error.getCause)(_.getCause).takeWhile(_ != null).take(10).foreach { cause =>
      text.append(s"\nCaused by: $cause")
    }
    bounded(text.toString)
  }

  private def calls(frame: StackTraceElement) = Calling.exists(frame.getClassName.startsWith)

  private def isOfKeystate(frame: StackTraceElement) =
    Own.exists(frame.getClassName.startsWith)

  def shorten(text: String): String = if (text.length <= 200) text else s"${text.take(200)}..."

  private def bounded(text: String) = {
    val leftOut = text.length - MostText
    if (leftOut <= 0) text
    else {
      val half = MostText / 2
      s"${text.take(half)}\n... $leftOut characters are left out here ...\n${text.takeRight(half)}"
    }
  }
}
