package org.apache.spark.sql.keystate.python.simulation

import org.apache.spark.TaskKilledException

/** Runs attempts at a batch until one commits.
  *
  * @param make
  *   makes an attempt of its number, its worker and what goes wrong in it
  * @param goesOn
  *   whether the late attempt does something now
  */
private[simulation] final class Attempts(
    make: (Int, Int, Option[(Trouble, Int)]) => Attempt,
    goesOn: () => Boolean,
    story: Story
) {
  import Attempts._

  // The attempt that was taken for lost, with the index of its worker.
  private var late = Option.empty[(Attempt, Int)]

  /** @return
    *   the results of the attempt that committed
    */
  def run(
      troubles: Seq[(Trouble, Int)],
      rows: Int,
      failed: () => Unit
  ): Seq[(String, Int, String)] = {
    val found = attempts(troubles.map(Some(_)) :+ None, rows, failed)
    while (late.nonEmpty) stepLate()
    found
  }

  private def attempts(
      troubles: Seq[Option[(Trouble, Int)]],
      rows: Int,
      failed: () => Unit
  ): Seq[(String, Int, String)] = troubles.zipWithIndex.iterator
    .map { case (trouble, number) =>
      story.tell(s"attempt $number" + trouble.fold("") { case (kind, at) =>
        s": $at, ${kind.text}"
      })
      val index = late.fold(0)(1 - _._2)
      val attempt = make(number, index, trouble)
      val lost = trouble.collect { case (Trouble.TakenForLost, at) => 1 + at % math.max(rows, 1) }
      try Some(read(attempt, index, lost))
      catch {
        case e: Throwable =>
          if (!trouble.exists { case (kind, _) => isOf(kind, e) }) throw e
          story.tell(s"the attempt fails: ${text(e).linesIterator.next().take(120)}")
          story.reach(trouble.get._1.text)
          failed()
          None
      }
    }
    .collectFirst { case Some(found) => found }
    .get

  private def read(attempt: Attempt, index: Int, lost: Option[Int]) = {
    val found = Vector.newBuilder[(String, Int, String)]
    var count = 0
    var next = attempt.next()
    while (next.nonEmpty) {
      found += next.get
      count += 1
      if (goesOn()) stepLate()
      if (lost.contains(count)) {
        while (late.nonEmpty) stepLate()
        attempt.endLease()
        late = Some(attempt -> index)
        throw new Lost
      }
      next = attempt.next()
    }
    found.result()
  }

  /** Lets the late attempt go on. It must not get to its end. */
  private def stepLate(): Unit = late.foreach { case (attempt, _) =>
    try if (attempt.next().isEmpty) throw new AssertionError("a late attempt ended well")
    catch {
      case e: Exception if text(e).contains("KEYSTATE_TASK_ENDED") =>
        story.tell("the late attempt is refused", "a late attempt is refused")
        late = None
    }
  }
}

private[simulation] object Attempts {
  private final class Lost extends Exception("taken for lost")

  private def isOf(trouble: Trouble, error: Throwable): Boolean = trouble match {
    case Trouble.Killed => error.isInstanceOf[TaskKilledException]
    case Trouble.LeaseEnds => text(error).contains("KEYSTATE_TASK_ENDED")
    case Trouble.WorkerDies => text(error).contains("it died")
    case Trouble.Throws => text(error).contains("the function throws")
    case Trouble.TakenForLost => error.isInstanceOf[Lost]
  }

  private def text(error: Throwable): String =
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null).map(_.toString).mkString("\n")
}
