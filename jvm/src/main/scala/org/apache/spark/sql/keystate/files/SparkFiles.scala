package org.apache.spark.sql.keystate.files

import java.io.{EOFException, IOException}

import scala.util.control.NonFatal

import com.fasterxml.jackson.core.JsonProcessingException
import org.apache.hadoop.fs.{ChecksumException, Path}

import keystate.errors.{DamagedFileException, KeystateException}

/** Files of a checkpoint that Spark or a library parses. Their errors for damaged files name no
  * file.
  */
private[keystate] object SparkFiles {

  /** Throws an error that names the file or its place if the content is invalid. */
  def reading[T](file: => Path)(read: => T): T = {
    def damaged(e: Throwable) =
      throw new DamagedFileException(file.toString, s"it cannot be understood ($e)", e)
    try read
    catch {
      case e: KeystateException => throw e
      case e @ (_: JsonProcessingException | _: ChecksumException | _: EOFException) => damaged(e)
      case e: IOException => throw e
      case NonFatal(e) => damaged(e)
    }
  }
}
