package keystate.backend.rocksdb

import java.lang.management.ManagementFactory
import java.util.concurrent.{Executors, ScheduledExecutorService, TimeUnit}
import javax.management.{JMException, ObjectName}

import org.slf4j.LoggerFactory

/** Gives free native memory back to the operating system from time to time, until it is closed.
  *
  * The C library of Linux (glibc) keeps for each thread what that thread once had and freed. Blocks
  * that come into the cache and go again in all threads so leave some 200 MB behind, whatever size
  * the cache has. The JVM can tell glibc to give them back, by a command that newer JDKs have
  * (17.0.15 does). Where there is no such command, nothing is done.
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

  /** What the JVM says of it. While it works, which takes some 10 ms, no garbage collection begins.
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
