package org.apache.spark.sql.keystate.python.simulation

/** Makes a failure's story shorter: leaves out ever smaller parts of its events as long as it fails
  * in the same way.
  */
private[simulation] object Shrinking {

  /** @param again
    *   runs the seed with some of its events
    * @param mostRuns
    *   how often to run it
    */
  def apply(failure: Seeds.Failure, mostRuns: Int)(
      again: Set[Int] => Option[Seeds.Failure]
  ): Seeds.Failure = {
    var shortest = failure.copy(only = Some((0 until failure.events).toSet))
    var size = failure.events / 2
    var runs = 0
    while (size >= 1 && runs < mostRuns) {
      // Those at the end first: they change the least of what happens.
      val parts = shortest.only.get.toSeq.sorted.reverse.grouped(size).toSeq
      parts.foreach { part =>
        if (runs < mostRuns) {
          runs += 1
          again(shortest.only.get -- part).filter(kindOf(_) == kindOf(failure)).foreach { shorter =>
            shortest = shorter
          }
        }
      }
      size /= 2
    }
    shortest
  }

  /** What went wrong, without the details. */
  private def kindOf(failure: Seeds.Failure) =
    failure.cause.toString.takeWhile(c => !c.isDigit && c != '\n')
}
