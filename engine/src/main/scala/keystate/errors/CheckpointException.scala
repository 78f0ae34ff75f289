package keystate.errors

import java.io.File

import scala.util.Try

import org.rocksdb.util.Environment

import keystate.backend.StateFamily
import keystate.files.StoreLocation

/** A checkpoint cannot be read or written. Its files are as they were before. */
sealed abstract class CheckpointException(errorCode: ErrorCode, message: String, cause: Throwable)
    extends KeystateException(errorCode, message, cause)

/** The version was never committed, or it is so old that it was cleaned up. */
final class MissingVersionException(
    location: StoreLocation,
    val version: Long,
    val file: String,
    cause: Throwable,
    otherFormat: Option[Int] = None
) extends CheckpointException(
      ErrorCode.MissingVersion,
      s"Version $version of the state of $location does not exist: there is no file $file. " +
        otherFormat.fold(
          "The query asks for a version that was not committed or that is older than the retained " +
            "ones (spark.sql.streaming.minBatchesToRetain); restore the file, or restart from " +
            "another checkpoint. If a foreachBatch read only a part of its rows, as with limit, show " +
            "or isEmpty, Spark has put the batch before into its commit log without this version: " +
            "read all rows there, and undo that commit as docs/failures.md says."
        ) { format =>
          s"The version was written with Spark's checkpoint format $format: start the query with " +
            s"spark.sql.streaming.stateStore.checkpointFormatVersion=$format."
        },
      cause
    ) {

  /** The same error, with the hint that the version exists in another of Spark's checkpoint
    * formats.
    */
  def inFormat(format: Int): MissingVersionException =
    new MissingVersionException(location, version, file, cause, Some(format))
}

/** A version exists, but one of the files that it is made of does not. */
final class MissingRunException(
    location: StoreLocation,
    version: Long,
    val file: String,
    cause: Throwable
) extends CheckpointException(
      ErrorCode.MissingFile,
      s"Version $version of the state of $location needs $file, which does not exist. Restore the " +
        "file, or restart the query from an earlier batch whose versions do not need it.",
      cause
    )

final class CorruptFileException(
    location: StoreLocation,
    version: Long,
    val file: String,
    detail: String,
    cause: Throwable = null
) extends CheckpointException(
      ErrorCode.CorruptFile,
      s"File $file of version $version of the state of $location is damaged: $detail. Restore it " +
        "from a copy, or restart the query from an earlier batch.",
      cause
    )

/** A version's id in the commit log is not one of Keystate's. It would become part of a file's
  * name.
  */
final class ForeignIdException(location: StoreLocation, version: Long, val file: String, id: String)
    extends CheckpointException(
      ErrorCode.CorruptFile,
      s"File $file is damaged: version $version of the state of $location has the id '$id' there, " +
        "which Keystate would not have given. Restore it from a copy, or go on from a savepoint.",
      null
    )

/** A damaged file that does not belong to the version of one store. */
final class DamagedFileException(val file: String, detail: String, cause: Throwable = null)
    extends CheckpointException(
      ErrorCode.CorruptFile,
      s"File $file is damaged: $detail. Restore it from a copy, or go on from a savepoint.",
      cause
    )

final class UnsupportedFormatException(val file: String, format: BigInt, supported: Int)
    extends CheckpointException(
      ErrorCode.UnsupportedFormat,
      s"File $file has format $format, and this release of Keystate reads format $supported. Use " +
        "the release that wrote it.",
      null
    )

final class MaxParallelismMismatchException(location: StoreLocation, recorded: Int, configured: Int)
    extends CheckpointException(
      ErrorCode.MaxParallelismChanged,
      s"The state of $location was written with max parallelism $recorded, and $configured is " +
        "configured. It cannot change in the life of a checkpoint: unset it or set it to " +
        s"$recorded, or start with a new checkpoint.",
      null
    )

final class KeyGroupsMismatchException(location: StoreLocation, recorded: String, owned: String)
    extends CheckpointException(
      ErrorCode.ParallelismChanged,
      s"The state of $location holds key groups $recorded, but with the query's number of " +
        s"partitions it has to hold $owned. Restart the query with the number of partitions it " +
        "was stopped with.",
      null
    )

/** Partitions of one version that were not written together. */
final class MixedPartitionsException(location: StoreLocation, version: Long, detail: String)
    extends CheckpointException(
      ErrorCode.MixedPartitions,
      s"Version $version of the state of $location does not go together with the other partitions': " +
        s"$detail. Two drivers with different numbers of partitions may have run on this checkpoint. " +
        "Stop all but one, see what 'keystate verify' says of the checkpoint, and start the query " +
        "with the number of partitions of its last committed batch.",
      null
    )

private[keystate] object MixedPartitionsException {
  def ofNumbers(location: StoreLocation, version: Long, found: Int, expected: Int) =
    new MixedPartitionsException(
      location,
      version,
      s"it was written for $found partitions, and not for $expected"
    )
}

final class StateMismatchException(
    location: StoreLocation,
    recorded: StateFamily,
    kind: String,
    layout: String
) extends CheckpointException(
      ErrorCode.StateChanged,
      s"State '${recorded.name}' of $location is of kind ${recorded.properties.getOrElse("kind", "")}" +
        s" (${recorded.layout.name}) in the checkpoint, and of kind $kind ($layout) in the query. " +
        "Declare it as before, or give the new state another name.",
      null
    )

/** RocksDB's native code cannot be loaded. The backend `hashmap` does not need it, except for run
  * files that were written with it.
  */
final class NativeLibraryException(cause: Throwable)
    extends CheckpointException(
      ErrorCode.NativeLibrary,
      s"RocksDB's native library ${NativeLibraryException.library} cannot be loaded: " +
        s"${NativeLibraryException.reason(cause)}. The library is unpacked into the folder " +
        "ROCKSDB_SHAREDLIB_DIR (an environment variable) or java.io.tmpdir, which has to be writable " +
        "and to allow execution, and rocksdbjni has to support the machine. Mend that, or set " +
        "spark.keystate.backend to hashmap, which needs the library only where the checkpoint " +
        "has run files of the RocksDB backend (.sst), and start the query again: the checkpoint is as it was.",
      cause
    )

private object NativeLibraryException {
  private def library: String =
    Try(Environment.getJniLibraryFileName("rocksdb")).getOrElse("rocksdbjni")

  private def reason(cause: Throwable): String =
    Iterator.iterate(cause)(_.getCause).takeWhile(_ != null).toSeq.last.toString
}

/** The executor's disk is full, is gone, or cannot be written to. */
final class LocalStorageException(val file: File, cause: Throwable)
    extends CheckpointException(
      ErrorCode.LocalStorage,
      s"Local file or folder $file cannot be written: ${cause.getMessage}. Free space there, or set " +
        "spark.local.dir to folders on another disk, and start the query again: the checkpoint is as " +
        "it was. The backend hashmap keeps less on local disk than rocksdb: the run that it is reading.",
      cause
    )

/** Partitions cannot be put together because they number their states differently. */
final class IncompatiblePartitionsException(
    operator: Long,
    store: String,
    first: StateFamily,
    second: StateFamily
) extends CheckpointException(
      ErrorCode.IncompatiblePartitions,
      s"Operator $operator, store $store cannot be rescaled: state number ${first.id} is " +
        s"'${first.name}' in one partition and '${second.name}' in another. Run the query with its " +
        "present number of partitions.",
      null
    )

final class MissingSourceFileException(file: String, cause: Throwable)
    extends CheckpointException(
      ErrorCode.MissingFile,
      s"The source's file $file does not exist, and with it the rows of a batch or the state to go " +
        "on from. Restore the file, or start with a new checkpoint.",
      cause
    )

final class CorruptSourceFileException(file: String, detail: String, cause: Throwable)
    extends CheckpointException(
      ErrorCode.CorruptFile,
      s"The source's file $file is damaged: $detail. Restore it from a copy, or start with a new " +
        "checkpoint.",
      cause
    )
