package keystate.simulation

import java.io.{
  ByteArrayInputStream, ByteArrayOutputStream, EOFException, File, FileNotFoundException,
  IOException, InputStream
}
import java.nio.file.FileAlreadyExistsException

import scala.collection.mutable

import keystate.files.{AtomicOutputStream, CheckpointStorage, StoredFile}

/** How a storage makes files appear, and what it may lose. */
sealed abstract class StorageKind(val name: String)
object StorageKind {

  /** Renames; at a power loss what was not synced is lost in any part.
    *
    * @param isSynced
    *   whether files and folders are synced before they count
    */
  final case class Local(isSynced: Boolean)
      extends StorageKind(if (isSynced) "local, synced" else "local")

  /** Renames; loses nothing. An answer may be lost. */
  case object Hdfs extends StorageKind("hdfs")

  /** One request writes a file. An answer may be lost, a request may take effect late, or twice. */
  case object Objects extends StorageKind("objects")
}

/** A request failed, as the seed would have it. */
final class StorageFault(message: String) extends IOException(message)

/** How likely faults are at each request. */
final case class FaultRates(fails: Double, answerLost: Double, late: Double, repeated: Double)
object FaultRates {
  val None: FaultRates = FaultRates(0, 0, 0, 0)
}

/** A file system in memory, of which each request is a step of the scheduler. */
final class SimulatedStorage(
    val kind: StorageKind,
    scheduler: Scheduler,
    random: Choices,
    story: Story,
    mutation: Option[Mutation]
) {
  import StorageKind._

  private final class Content(var bytes: Array[Byte], var modified: Long) {
    var isSynced = false
  }

  private val files = mutable.LinkedHashMap.empty[String, Content]

  /** What a name may stand for after a power loss, if its folder was not synced since: oldest first.
    */
  private val unsynced = mutable.LinkedHashMap.empty[String, Vector[Option[Content]]]

  private val network = new Process("network")

  var rates: FaultRates = FaultRates.None

  /** Called when a file has appeared, or has been replaced. */
  var onWritten: String => Unit = _ => ()

  /** Called before a file is deleted. */
  var onDelete: String => Unit = _ => ()

  def paths: Seq[String] = files.keys.toSeq
  def get(path: String): Option[Array[Byte]] = files.get(path).map(_.bytes)
  def modified(path: String): Long = files(path).modified

  /** What the storage has now, without steps, faults or effects: for checks. */
  val snapshot: CheckpointStorage = new Reader

  /** The power fails: what was not synced is lost, in any part. All processes are dead by then. */
  def losePower(): Unit = {
    unsynced.foreach { case (path, candidates) =>
      candidates(random.nextInt(candidates.size)) match {
        case Some(content) => files(path) = content
        case None => files -= path
      }
    }
    unsynced.clear()
    files.values.filterNot(_.isSynced).foreach { content =>
      random.nextInt(4) match {
        case 0 => content.bytes = Array.emptyByteArray
        case 1 => content.bytes = content.bytes.take(random.nextInt(content.bytes.length + 1))
        case _ =>
      }
      content.isSynced = true
    }
  }

  private def set(path: String, content: Option[Content]): Unit = {
    if (kind.isInstanceOf[Local])
      unsynced(path) = unsynced.getOrElse(path, Vector(files.get(path))) :+ content
    content match {
      case Some(content) => files += path -> content
      case None => files -= path
    }
    ()
  }

  private def syncFolder(path: String): Unit = {
    val folder = folderOf(path)
    unsynced.filterInPlace((other, _) => folderOf(other) != folder)
    ()
  }

  private def has(other: Mutation) = mutation.contains(other)
  private def isRun(path: String) = path.endsWith(".lz4") || path.endsWith(".sst")

  private def folderOf(path: String) = path.take(path.lastIndexOf('/'))

  /** One request of an actor: others may come before it, it may fail, its answer may be lost. */
  private def request[T](what: String, path: String, changes: Boolean = false)(effect: => T): T = {
    scheduler.step()
    val dice = if (rates eq FaultRates.None) 1.0 else random.nextDouble()
    if (random.isEvent(dice < rates.fails)) {
      story.tell(scheduler, s"$what $path: fails", "a request fails")
      throw new StorageFault(s"$what $path failed")
    }
    val mayLose = changes && !kind.isInstanceOf[Local] && dice >= rates.fails
    if (random.isEvent(mayLose && dice < rates.fails + rates.answerLost)) {
      effect
      story.tell(scheduler, s"$what $path: is done, the answer is lost", "an answer is lost")
      throw new StorageFault(s"$what $path: no answer")
    }
    story.tell(scheduler, s"$what $path")
    effect
  }

  private def isLate: Boolean = kind == Objects && random.happens(rates.late)
  private def isRepeated: Boolean = kind == Objects && random.happens(rates.repeated)

  /** An effect that comes when its writer has long been answered. */
  private def later(what: String)(effect: => Unit): Unit =
    scheduler.spawn(network, what) {
      scheduler.sleep(random.nextInt(20000).toLong)
      story.tell(scheduler, s"$what takes effect")
      effect
    }

  private class Reader extends CheckpointStorage {
    protected def read[T](what: String, path: String)(effect: => T): T = effect

    override def open(path: String, offset: Long): InputStream = read("read", path) {
      val bytes = get(path).getOrElse(throw new FileNotFoundException(path))
      if (offset > bytes.length) throw new EOFException(s"$path ends before $offset")
      new ByteArrayInputStream(bytes, offset.toInt, bytes.length - offset.toInt)
    }
    override def link(path: String, file: File): Boolean = false
    override def createAtomic(path: String, mustBeNew: Boolean): AtomicOutputStream =
      throw new UnsupportedOperationException
    override def list(folder: String): Seq[StoredFile] = read("list", folder) {
      // In any order, but by the seed: names have ids in them that differ each time.
      val found = files.iterator.collect {
        case (path, file) if folderOf(path) == folder =>
          val isTakenForOld = has(Mutation.TakesForOld) && isRun(path)
          StoredFile(path.drop(folder.length + 1), if (isTakenForOld) 0 else file.modified)
      }.toVector
      if (random.nextBoolean()) found else found.reverse
    }
    override def folders(): Seq[String] = read("list", "") {
      files.keysIterator.collect { case s"$folder/$_" => folder }.toVector.distinct
    }
    override def exists(path: String): Boolean = read("look for", path)(files.contains(path))
    override def delete(path: String): Unit = throw new UnsupportedOperationException
    override def describe(path: String): String = path
  }

  /** The storage as the actors see it. */
  val view: CheckpointStorage = new Reader {
    override protected def read[T](what: String, path: String)(effect: => T): T =
      request(what, path)(effect)

    override def list(folder: String): Seq[StoredFile] = {
      val found = super.list(folder)
      // As the manager of local files does: what an actor goes on from is there after a power loss.
      if (kind == Local(isSynced = true) && !has(Mutation.NoFolderSync)) syncFolder(s"$folder/")
      found
    }

    override def createAtomic(path: String, mustBeNew: Boolean): AtomicOutputStream =
      if (kind == Objects) new Put(path, mustBeNew) else new Renamed(path, mustBeNew)

    override def delete(path: String): Unit =
      request("delete", path, changes = true)(deleteNow(path))

    override def deleteAll(paths: Seq[String]): Unit =
      if (kind == Objects)
        paths.grouped(3).foreach { page =>
          request("delete", page.mkString(", "), changes = true)(page.foreach(deleteNow))
        }
      else paths.foreach(delete)
  }

  private def deleteNow(path: String): Unit = if (files.contains(path)) {
    onDelete(path)
    set(path, None)
  }

  private def appear(path: String, content: Content): Unit = {
    def effect(): Unit = {
      set(path, Some(content))
      onWritten(path)
    }
    if (has(Mutation.RunsComeLater) && isRun(path))
      scheduler.spawn(scheduler.process, "the run file's writer") {
        scheduler.step()
        effect()
      }
    else if (
      has(Mutation.SkipsRescaled) && path.endsWith(".keystate") &&
      scheduler.process.name.startsWith("driver") && random.nextInt(4) == 0
    ) ()
    else {
      if (has(Mutation.AppearsInParts)) {
        val half = content.bytes.take(content.bytes.length / 2)
        set(path, Some(new Content(half, scheduler.now)))
        scheduler.step()
      }
      effect()
    }
  }

  private abstract class Written(path: String, mustBeNew: Boolean) extends AtomicOutputStream {
    protected def isThere: Boolean =
      mustBeNew && files.contains(path) && !has(Mutation.NotConditional)

    protected val buffer = new ByteArrayOutputStream
    private var ended = false
    override def write(byte: Int): Unit = buffer.write(byte)
    override def write(bytes: Array[Byte], offset: Int, length: Int): Unit =
      buffer.write(bytes, offset, length)
    override def close(): Unit = if (!ended) {
      ended = true
      end()
    }
    override def cancel(): Unit = if (!ended) {
      ended = true
      undo()
    }
    protected def end(): Unit
    protected def undo(): Unit
  }

  /** A file that one request makes. */
  private final class Put(path: String, mustBeNew: Boolean) extends Written(path, mustBeNew) {
    override protected def end(): Unit = {
      val bytes = buffer.toByteArray
      def effect(): Unit = {
        if (isThere) throw new FileAlreadyExistsException(path)
        appear(path, new Content(bytes, scheduler.now))
      }
      def again(what: String): Unit = later(s"$what $path") {
        try effect()
        catch { case _: FileAlreadyExistsException => }
      }
      if (isLate) request("put", path) {
        again("a late put of")
        story.tell(scheduler, s"put $path: no answer yet", "a request is late")
        throw new StorageFault(s"put $path: no answer")
      }
      else
        request("put", path, changes = true) {
          effect()
          if (isRepeated) {
            story.tell(scheduler, s"put $path: will be repeated", "a request is repeated")
            again("a repeated put of")
          }
        }
    }
    override protected def undo(): Unit = ()
  }

  /** A file that is written under another name first. */
  private final class Renamed(path: String, mustBeNew: Boolean) extends Written(path, mustBeNew) {
    private val temporary =
      s"${folderOf(path)}/.${path.drop(path.lastIndexOf('/') + 1)}.${random.nextInt(1000000)}.tmp"
    request("create", temporary)(
      set(temporary, Some(new Content(Array.emptyByteArray, scheduler.now)))
    )

    override protected def end(): Unit = {
      request("write", temporary) {
        val content = files(temporary)
        content.bytes = buffer.toByteArray
        content.modified = scheduler.now
        content.isSynced = isSynced && !has(Mutation.NoFileSync)
      }
      request("rename", temporary, changes = true) {
        val content = files(temporary)
        if (isThere) {
          set(temporary, None)
          throw new FileAlreadyExistsException(path)
        }
        set(temporary, None)
        appear(path, content)
      }
      if (isSynced && !has(Mutation.NoFolderSync))
        request("sync folder of", path)(syncFolder(path))
    }
    override protected def undo(): Unit = view.delete(temporary)
    private def isSynced = kind == Local(isSynced = true)
  }
}
