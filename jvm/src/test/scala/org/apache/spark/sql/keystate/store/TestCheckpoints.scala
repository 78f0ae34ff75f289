package org.apache.spark.sql.keystate.store

import java.nio.file.Files
import java.util.UUID

/** Where the checkpoints of tests are: on the local disk, or below the folder that the environment
  * names, of any file system. `tests/stores` runs suites so.
  */
private[store] object TestCheckpoints {
  private val elsewhere = sys.env.get("KEYSTATE_TEST_CHECKPOINTS")

  def newFolder(): String = elsewhere.fold(
    Files.createTempDirectory("keystate-test").toUri.toString
  )(folder => s"$folder/${UUID.randomUUID}")

  /** The folder that stands for a local one. What has a scheme already is not changed. */
  def at(local: String): String =
    elsewhere.filter(_ => local.startsWith("/")).fold(local)(folder => s"$folder$local")
}
