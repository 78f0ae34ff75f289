package org.apache.spark.sql.keystate.store

import java.io.File
import java.nio.file.Files

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import keystate.checkpoint.StoreFixture
import keystate.faults.{FaultFileSystem, FaultPlan}
import keystate.files.CheckpointStorage
import org.apache.spark.sql.keystate.files.SparkCheckpointStorage

/** Stores through Spark's checkpoint files on a file system where things go wrong. */
trait FaultyStores extends StoreFixture {

  /** A checkpoint's operator, and what goes wrong in it. */
  protected final class Faulty(rename: String = "replace") {
    private val root = Files.createTempDirectory("keystate-faults").toFile
    val checkpoint = new File(root, "checkpoint")
    val folder = new File(checkpoint, "state/0")
    val plan = new FaultPlan(Files.createDirectory(new File(root, "plan").toPath).toFile)
    val storage: CheckpointStorage =
      new SparkCheckpointStorage(new Path("fault://" + folder.getPath), hadoop)
    private def hadoop = {
      val conf = new Configuration
      FaultFileSystem.settings(plan, rename).foreach { case (key, value) => conf.set(key, value) }
      conf
    }
    private var planned = 0

    /** Runs a body with a fault, and returns what it threw; fails if the fault did not happen. */
    def suffers(step: String, nth: Long, action: String, pattern: String = "")(
        body: => Any
    ): Throwable = {
      val thrown = during(step, nth, action, pattern)(body)
      assert(plan.happened(name), s"no $step $nth of $pattern in $body")
      thrown.getOrElse(throw new AssertionError(s"$action at $step $nth went unnoticed"))
    }

    /** Likewise; None if the body got through. */
    def during(step: String, nth: Long, action: String, pattern: String = "")(
        body: => Any
    ): Option[Throwable] = {
      planned += 1
      plan.add(name, step, nth, action, pattern)
      try {
        body
        None
      } catch { case e: Throwable => Some(e) }
      finally plan.clear()
    }

    /** Runs a body in a thread that is held at a step; returns a function that lets it go on and
      * waits for its end.
      */
    def held(step: String, pattern: String)(body: => Any): () => Option[Throwable] = {
      planned += 1
      val fault = name
      plan.add(fault, step, 1, "hold", pattern)
      @volatile var thrown = Option.empty[Throwable]
      val thread = new Thread(() =>
        try {
          body
          ()
        } catch { case e: Throwable => thrown = Some(e) }
      )
      thread.start()
      while (!plan.happened(fault)) {
        assert(thread.isAlive, s"no $step of $pattern, $thrown")
        Thread.sleep(2)
      }
      plan.clear()
      () => {
        plan.release(fault)
        thread.join()
        thrown
      }
    }

    def happened: Boolean = plan.happened(name)
    def files(folder: String): Seq[String] =
      new File(this.folder, folder).list.toSeq.sorted

    private def name = s"fault$planned"
  }
}
