package keystate.faults

import java.io.File
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{FileAlreadyExistsException, Files, NoSuchFileException}
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

/** Faults as files of a folder, so that several processes can share them: `NAME.fault` has a line
  * `STEP NTH ACTION PATTERN`. At the NTH such step of a process on a path in which the pattern, a
  * regular expression, is found, the action is taken, once in all processes, and `NAME.happened`
  * appears.
  *
  * Steps are `create`, `write`, `close`, `rename`, `copying`, `renamed`, `open`, `delete`, `list`,
  * `status`, `mkdirs`, and `any`. NTH of `write` is the byte of the file before which it happens.
  *
  *   - `fail` throws an [[InjectedFault]]
  *   - `dead` does so from then on, as long as the fault is planned: what a process that was killed
  *     would do, cleaning up included, is not done
  *   - `halt` ends the process at once
  *   - `hold` waits until there is a file `NAME.release`, whatever interrupts
  *   - `false`, of a rename, makes it return false
  */
final class FaultPlan(val folder: File) {
  import FaultPlan._

  def add(name: String, step: String, nth: Long, action: String, pattern: String = ""): Unit = {
    Files.writeString(file(s"$name.new"), s"$step $nth $action $pattern")
    Files.move(file(s"$name.new"), file(s"$name.fault"))
    ()
  }

  def happened(name: String): Boolean = Files.exists(file(s"$name.happened"))

  def release(name: String): Unit = {
    Files.createFile(file(s"$name.release"))
    ()
  }

  /** Ends what is going on: the dead live again. */
  def clear(): Unit = folder.listFiles.filter(_.getName.endsWith(".fault")).foreach(_.delete())

  /** A step on a path; returns the action that the caller has to take itself. */
  def at(step: String, path: String): String = {
    faults.foreach(fault => if (fault.action == Dead && happened(fault.name)) die(step, path))
    faults
      .filter(fault => (fault.step == step || fault.step == "any") && fault.isOn(path))
      .filter(fault => step == "write" || count(fault.name) == fault.nth)
      .filter(happensNow)
      .map(take(_, step, path))
      .headOption
      .getOrElse("")
  }

  /** How many of the bytes to be written at a position of a file can be written before a fault. */
  def roomFor(path: String, position: Long, length: Int): Int = faults
    .filter(fault => fault.step == "write" && fault.isOn(path) && !happened(fault.name))
    .map(fault => Math.max(0L, fault.nth - position).toInt)
    .minOption
    .fold(length)(Math.min(length, _))

  private def take(fault: Fault, step: String, path: String): String = {
    fault.action match {
      case "fail" => throw new InjectedFault(s"${fault.name}: $step of $path")
      case Dead => die(step, path)
      case "halt" => Runtime.getRuntime.halt(137)
      case "hold" => while (!Files.exists(file(s"${fault.name}.release"))) pause()
      case ReturnFalse =>
    }
    fault.action
  }

  private def die(step: String, path: String): Nothing =
    throw new InjectedFault(s"a dead process has no $step of $path")

  private def pause(): Unit =
    try Thread.sleep(5)
    catch { case _: InterruptedException => }

  /** Only the first process that gets here may. */
  private def happensNow(fault: Fault): Boolean =
    try {
      Files.createFile(file(s"${fault.name}.happened"))
      true
    } catch { case _: FileAlreadyExistsException => false }

  private def count(name: String): Long =
    counts.computeIfAbsent(file(name).toString, _ => new AtomicLong).incrementAndGet()

  private def faults: Seq[Fault] = folder.listFiles.toSeq
    .filter(_.getName.endsWith(".fault"))
    .flatMap { file =>
      try
        Files.readString(file.toPath, UTF_8).split(" ", 4) match {
          case Array(step, nth, action, pattern) =>
            Some(Fault(file.getName.stripSuffix(".fault"), step, nth.toLong, action, pattern))
          case _ => throw new IllegalArgumentException(s"$file is not STEP NTH ACTION PATTERN")
        }
      catch { case _: NoSuchFileException => None }
    }

  private def file(name: String) = new File(folder, name).toPath
}

object FaultPlan {
  final val ReturnFalse = "false"
  private final val Dead = "dead"

  private val counts = new ConcurrentHashMap[String, AtomicLong]

  private final case class Fault(
      name: String,
      step: String,
      nth: Long,
      action: String,
      pattern: String
  ) {
    def isOn(path: String): Boolean = pattern.r.findFirstIn(path).isDefined
  }
}
