package keystate.files

import java.lang.management.ManagementFactory
import java.net.InetAddress

import scala.util.control.NonFatal

/** A process, as others can tell whether it still runs.
  *
  * @param start
  *   when it started, in ms: its number alone is not unique, because numbers are used again
  */
final case class KnownProcess(host: String, pid: Long, start: Long) {

  /** Whether it is of this machine. */
  def isHere: Boolean = host == KnownProcess.current.host

  /** False if it has ended, which can be told of this machine's only. */
  def mayRun: Boolean = !isHere || KnownProcess.isAlive(this)
}

object KnownProcess {
  lazy val current: KnownProcess = {
    val host =
      try InetAddress.getLocalHost.getHostName
      catch { case NonFatal(_) => ManagementFactory.getRuntimeMXBean.getName }
    KnownProcess(host, ProcessHandle.current.pid, startOf(ProcessHandle.current))
  }

  private def isAlive(known: KnownProcess): Boolean =
    Option(ProcessHandle.of(known.pid).orElse(null))
      .exists(process => process.isAlive && startOf(process) == known.start)

  private def startOf(process: ProcessHandle): Long =
    process.info.startInstant.map[Long](_.toEpochMilli).orElse(0L)
}
