package keystate.version

import java.io.{ByteArrayOutputStream, DataOutputStream, FileNotFoundException}
import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.US_ASCII
import java.nio.file.FileAlreadyExistsException
import java.util.Arrays

import scala.util.Using
import scala.util.control.NonFatal
import scala.util.matching.Regex

import keystate.errors.{
  CorruptFileException, ForeignIdException, MissingVersionException, UnsupportedFormatException
}
import keystate.files.{CheckpointStorage, Crc32c, StoreLocation}

/** The file that makes a version exist. Its name is `<version>.keystate`; with checkpoint format v2
  * `<version>_<id>.keystate`; with v1, once the query was rescaled,
  * `<version>_of<parallelism>.keystate`. Numbers are big-endian.
  *
  * {{{
  * "KEYSTATE"            8 bytes
  * format                int32, 1
  * length                int32
  * manifest              `length` bytes of JSON, see Manifest
  * inline runs           one after the other, in the manifest's order
  * crc32c                int32, of all bytes before
  * }}}
  *
  * It is written last and atomically, so a version is complete or does not exist. It needs no other
  * files than the run files it lists, which have unique names and never change: no other attempt at
  * this or another version can damage it. With v1 two attempts write the same name if they have the
  * same partitioning; either file is a complete version made from the same input.
  */
private[keystate] object VersionFile {
  final val Format = 1

  private val Magic = "KEYSTATE".getBytes(US_ASCII)
  private val HeaderLength = Magic.length + 8
  private val Name = """(\d+)(?:_([^.]+))?\.keystate""".r

  /** The path of a version file.
    *
    * @param id
    *   here and below what follows the version in the file's name: the id with checkpoint format
    *   v2, what `partitionsName` gives with v1 after a rescale, else None
    */
  def path(location: StoreLocation, version: Long, id: Option[String]): String =
    s"${location.folder}/${fileName(version, id)}"

  /** The name of a version file. */
  def fileName(version: Long, id: Option[String]): String =
    s"$version${id.fold("")("_" + _)}.keystate"

  /** The version, and what follows it, in the name of a version file; None for any other name. */
  def parse(name: String): Option[(Long, Option[String])] = name match {
    case Name(version, id) => version.toLongOption.map(_ -> Option(id))
    case _ => None
  }

  /** Writes a version file; returns how many bytes it has. */
  def write(storage: CheckpointStorage, location: StoreLocation, manifest: Manifest): Long = {
    val bytes = encode(manifest)
    CheckpointStorage.write(storage, path(location, manifest.version, nameOf(manifest)))(
      _.write(bytes)
    )
    bytes.length.toLong
  }

  /** Writes a version file that may exist already. If it does not exist, it is created as a new
    * file: if a storage repeats the request long after its answer, the repeated request then does
    * not overwrite a later file. An equal file stays; a different one is replaced atomically,
    * because somebody may read it.
    */
  def replace(storage: CheckpointStorage, location: StoreLocation, manifest: Manifest): Unit = {
    val bytes = encode(manifest)
    val file = path(location, manifest.version, nameOf(manifest))
    def isThere: Boolean =
      try Using.resource(storage.open(file))(in => Arrays.equals(in.readAllBytes(), bytes))
      catch { case _: FileNotFoundException => false }
    try CheckpointStorage.write(storage, file, mustBeNew = true)(_.write(bytes))
    catch {
      case _: FileAlreadyExistsException =>
        if (!isThere) CheckpointStorage.write(storage, file)(_.write(bytes))
    }
  }

  /** The part after the version in the name of this manifest's file. */
  def nameOf(manifest: Manifest): Option[String] =
    manifest.id.orElse {
      val of = manifest.partitioning
      of.rescaledAt.flatMap(_ => of.partitions).map(partitionsName)
    }

  /** The part after the version with v1, for a number of partitions that differs from the query's
    * first.
    */
  def partitionsName(parallelism: Int): String = s"of$parallelism"

  /** Matches what `partitionsName` gives. */
  val PartitionsName: Regex = """of(\d+)""".r

  /** Reads a version file and checks all of it: its checksum, and its content by [[ManifestRules]].
    *
    * @throws MissingVersionException
    *   the file does not exist
    * @throws ForeignIdException
    *   `id` can't be part of a version file's name
    * @throws UnsupportedFormatException
    *   it has another format
    * @throws CorruptFileException
    *   anything else is wrong with it
    */
  def read(
      storage: CheckpointStorage,
      location: StoreLocation,
      version: Long,
      id: Option[String]
  ): Manifest = {
    if (!id.forall(ManifestRules.isId))
      throw new ForeignIdException(location, version, commit(storage, version), id.getOrElse(""))
    val file = path(location, version, id)
    val bytes =
      try {
        val in = storage.open(file)
        try in.readAllBytes()
        finally in.close()
      } catch {
        case e: FileNotFoundException =>
          throw new MissingVersionException(location, version, storage.describe(file), e)
      }
    decode(bytes, location, version, id, storage.describe(file))
  }

  /** Whether a version that does not exist without an id exists with one, because it was written
    * with Spark's checkpoint format 2.
    */
  def hasOnlyIds(storage: CheckpointStorage, location: StoreLocation, version: Long): Boolean =
    try {
      val there = storage.list(location.folder).flatMap(file => parse(file.name)).collect {
        case (`version`, name) => name.filterNot(PartitionsName.matches)
      }
      there.nonEmpty && there.forall(_.nonEmpty)
    } catch { case NonFatal(_) => false }

  /** The entry of Spark's commit log that ids of a version are from. Paths are relative to
    * `state/<operator>`.
    */
  private def commit(storage: CheckpointStorage, version: Long): String =
    storage.describe(s"../../commits/${version - 1}")

  private def encode(manifest: Manifest): Array[Byte] = {
    val json = Manifest.toJson(manifest)
    val bytes = new ByteArrayOutputStream
    val out = new DataOutputStream(bytes)
    out.write(Magic)
    out.writeInt(Format)
    out.writeInt(json.length)
    out.write(json)
    manifest.runs.foreach(_.source match {
      case inline: InlineSource => out.write(inline.content)
      case _: FileSource =>
    })
    out.writeInt(Crc32c.of(bytes.toByteArray))
    bytes.toByteArray
  }

  private def decode(
      bytes: Array[Byte],
      location: StoreLocation,
      version: Long,
      id: Option[String],
      file: String
  ): Manifest = {
    def corrupt(detail: String, cause: Throwable = null) =
      new CorruptFileException(location, version, file, detail, cause)

    if (bytes.length < HeaderLength + 4) throw corrupt(s"it has only ${bytes.length} bytes")
    if (!Arrays.equals(bytes, 0, Magic.length, Magic, 0, Magic.length))
      throw corrupt("it does not begin as a version file does")
    val buffer = ByteBuffer.wrap(bytes)
    if (buffer.getInt(bytes.length - 4) != Crc32c.of(bytes, 0, bytes.length - 4))
      throw corrupt("its checksum is wrong")
    val format = buffer.getInt(Magic.length)
    if (format != Format) throw new UnsupportedFormatException(file, format, Format)

    val end = bytes.length - 4
    val jsonLength = buffer.getInt(Magic.length + 4)
    if (jsonLength < 0 || jsonLength > end - HeaderLength)
      throw corrupt(s"its manifest has $jsonLength bytes")
    var position = HeaderLength + jsonLength
    val manifest =
      try
        Manifest.fromJson(
          Arrays.copyOfRange(bytes, HeaderLength, position),
          length => {
            if (length < 0 || length > end - position)
              throw new IllegalArgumentException(s"an inline run has $length bytes")
            val from = position
            position += length.toInt
            Arrays.copyOfRange(bytes, from, position)
          }
        )
      catch { case e: Exception => throw corrupt("its manifest cannot be understood", e) }
    if (position != end) throw corrupt(s"it has ${end - position} bytes after its last inline run")
    ManifestRules
      .problem(manifest, location, version, id)
      .foreach(problem => throw corrupt(problem))
    manifest
  }
}
