package keystate.backend.rocksdb

import java.lang.management.ManagementFactory
import java.util.concurrent.{Executors, ScheduledExecutorService, TimeUnit}
import javax.management.{JMException, ObjectName}

import org.slf4j.LoggerFactory

/** Returns free native memory to the operating system from time to time, until it is closed.
  *
  * The C library of Linux (glibc) keeps freed memory for each thread. Cache blocks that all threads
  * allocate and free leave some 200 MB behind, whatever the size of the cache. Newer JDKs (17.0.15
  * is one) have a command that makes glibc return this memory. Without that command this class does
  * nothing.
  */
private[rocksdb] final class NativeTrim extends AutoCloseable {
  import NativeTrim._

  private val thread: ScheduledExecutorService = Executors.newSingleThreadScheduledExecutor {
    work =>
      val thread = new Thread(work, "keystate-native-trim")
      thread.setDaemon(true)
      thread
  }
  // An exception ends the schedule: where the command fails once it always does.
  thread.scheduleWithFixedDelay(() => log.debug(trim()), Seconds, Seconds, TimeUnit.SECONDS)

  override def close(): Unit =
    thread.shutdownNow(): Unit
}

private[rocksdb] object NativeTrim {
  private final val Seconds = 3L
  private final val Trim = "systemTrimNativeHeap"
  private val Commands = new ObjectName("com.sun.management:type=DiagnosticCommand")
  private val log = LoggerFactory.getLogger(classOf[NativeTrim])

  /** The JVM's output. While the command runs, which takes some 10 ms, no garbage collection
    * begins.
    */
  def trim(): String =
    try
      String
        .valueOf(ManagementFactory.getPlatformMBeanServer.invoke(Commands, Trim, null, null))
        .trim
    catch {
      case e: JMException =>
        log.debug("This JVM can't give native memory back", e)
        throw e
    }
}
