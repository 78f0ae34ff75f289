package keystate.files

import java.lang.management.ManagementFactory
import java.net.InetAddress

import scala.util.control.NonFatal

/** Identifies a process, so that others can check whether it still runs.
  *
  * @param start
  *   the start time in ms: the process id alone is not unique, because ids are reused
  */
final case class KnownProcess(host: String, pid: Long, start: Long) {

  /** Whether the process is on this machine. */
  def isHere: Boolean = host == KnownProcess.current.host

  /** False if the process has ended; only a process on this machine can be checked. */
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
