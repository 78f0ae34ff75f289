package keystate.checkpoint

import java.io.{File, FileInputStream, OutputStream}
import java.util.UUID

import org.rocksdb.CompressionType

import keystate.backend.{ChangeSink, KeyedStateBackend, RunStatistics}
import keystate.files.{CheckedFiles, CheckpointStorage, LocalFolder, StoreLocation, Summed}
import keystate.version.{
  FileSource, InlineRun, InlineSource, Manifest, Run, RunMerge, SectionedRun, SstFiles
}

/** Writes run files of a store into the checkpoint's storage. Any thread may call it.
  *
  * @param asSst
  *   whether to write SST files, because the backend takes such files over whole; otherwise it
  *   writes [[keystate.version.SectionedRun]]s, which are faster to write and to read
  * @param sectionBytes
  *   the minimum length of their sections
  */
private[checkpoint] final class RunWriter(
    location: StoreLocation,
    storage: CheckpointStorage,
    local: LocalFolder,
    val asSst: Boolean,
    sectionBytes: Int = SectionedRun.SectionBytes
) {
  import RunFiles.{SectionedSuffix, SstSuffix}

  /** Whether another kind of backend wrote the run's file, so that each load has to make an SST
    * file of it.
    */
  def isForeign(run: Run): Boolean = asSst && (run.source match {
    case FileSource(path) => !RunFiles.isSst(path)
    case _: InlineSource => false
  })

  /** Writes a run file under a new unique name. There must be at least one change. */
  def write(changes: ChangeSink => Unit, version: Long, id: Option[String]): Run =
    if (asSst) {
      val file = local.newFile()
      try storeSst(file, changes, version, id, SstFiles.Small)
      finally
        file.delete(): Unit
    } else
      store(version, id, SectionedSuffix)(SectionedRun.write(_, sectionBytes, changes))

  /** Writes an SST file under a new unique name, through this local file. Unless this throws, the
    * local file stays, and the caller's database may take it over.
    */
  def writeSst(file: File, changes: ChangeSink => Unit, version: Long, id: Option[String]): Run =
    storeSst(file, changes, version, id, SstFiles.QuickToRead)

  private def storeSst(
      file: File,
      changes: ChangeSink => Unit,
      version: Long,
      id: Option[String],
      compression: CompressionType
  ): Run =
    try {
      val statistics = SstFiles.write(file, changes, compression)
      val run = store(version, id, SstSuffix) { out =>
        val in = new FileInputStream(file)
        try RunFiles.copy(in, out)
        finally in.close()
        statistics
      }
      remember(run)
      run
    } catch {
      case e: Throwable =>
        file.delete()
        throw e
    }

  /** So that who takes the file over in this process need not read it whole. */
  private def remember(run: Run): Unit = run.source match {
    case FileSource(path) if CheckedFiles.keeps(run.bytes) =>
      val name = local.newFile()
      if (storage.link(path, name))
        try CheckedFiles.written(name, run.crc32c)
        finally
          name.delete(): Unit
    case _ =>
  }

  private def store(version: Long, id: Option[String], suffix: String)(
      content: OutputStream => RunStatistics
  ): Run = {
    val path = s"${location.folder}/$version-${UUID.randomUUID}$suffix"
    var run: Run = null
    CheckpointStorage.write(storage, path) { out =>
      val summed = new Summed(out)
      val statistics = content(summed)
      run = Run(
        FileSource(path),
        statistics.entries,
        summed.length,
        statistics.groups,
        summed.crc32c,
        version,
        id
      )
    }
    run
  }
}

/** Decides which runs of a version are inline, in its version file.
  *
  * @param room
  *   the maximum bytes of inline runs
  */
private[checkpoint] final class InlineRuns(files: RunFiles, room: Long) {

  /** The run of a backend's changes, inline if there is room; None if nothing changed.
    *
    * @param file
    *   a local file, to which a run that is not inline is first written if it is an SST file
    */
  def changes(
      backend: KeyedStateBackend,
      writer: RunWriter,
      file: => File,
      version: Long,
      id: Option[String]
  ): Option[Run] = Option.when(backend.changeCount > 0) {
    InlineRun
      .encode(backend.writeChanges, room, version, id)
      .getOrElse(
        if (writer.asSst) writer.writeSst(file, backend.writeChanges, version, id)
        else writer.write(backend.writeChanges, version, id)
      )
  }

  /** The runs of the version after `base`. The newest run stays separate, because it records the
    * version's changes. If inline runs have too many bytes, the older ones are written to files.
    *
    * @param families
    *   the version's families
    */
  def runsOf(
      base: Manifest,
      older: Seq[Run],
      newest: Option[Run],
      writer: RunWriter,
      families: Set[Int]
  ): Seq[Run] = {
    def inFiles(runs: List[Run]): List[Run] =
      runs.span(_.source.isInstanceOf[InlineSource]) match {
        case (Nil, Nil) => Nil
        case (Nil, file :: rest) => file :: inFiles(rest)
        case (inline, rest) =>
          val merge = new RunMerge(
            inline.toIndexedSeq.map { run =>
              val groups = base.partitioning.readGroups
              files.read(run, isWhole = true, families, groups, base.version + 1)
            },
            keepRemovals = true
          )
          val merged =
            Option.when(merge.hasNext)(writer.write(_.addAll(merge), base.version, base.id))
          merged.toList ++ inFiles(rest)
      }
    val bytes = (older ++ newest).map(_.inlineBytes).sum
    (if (bytes <= room) older else inFiles(older.toList)) ++ newest
  }
}
