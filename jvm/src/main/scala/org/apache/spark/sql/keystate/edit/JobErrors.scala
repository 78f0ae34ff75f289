package org.apache.spark.sql.keystate.edit

import keystate.errors.KeystateException

private[keystate] object JobErrors {

  /** Runs a job or a query. If it fails with an error of Keystate's in a task, throws that one in
    * the place of Spark's.
    */
  def unwrapped[T](job: => T): T =
    try job
    catch {
      case e: Exception =>
        val causes = Iterator.iterate[Throwable](e)(_.getCause).takeWhile(_ != null)
        throw causes.collectFirst { case own: KeystateException => own }.getOrElse(e)
    }
}
