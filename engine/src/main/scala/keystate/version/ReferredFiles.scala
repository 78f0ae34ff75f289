package keystate.version

import scala.collection.mutable

import keystate.files.{CheckpointStorage, StoreLocation, StoredFile}

/** The run files that other checkpoints refer to. What references say is remembered, for they never
  * change.
  */
private[keystate] final class ReferredFiles(storage: CheckpointStorage) {
  import ReferredFiles._

  private val known = mutable.HashMap.empty[(StoreLocation, String), Seq[String]]

  /** The paths, relative to the operator's folder. Throws if a reference can't be read.
    *
    * @param listed
    *   the files of the store
    */
  def in(location: StoreLocation, listed: Seq[StoredFile]): Set[String] = {
    // A long list takes several requests. A reference may have been written before the position
    // that the first request reached, and later requests may return versions that are much newer:
    // the reference would be overlooked.
    val files = if (listed.size < OneRequest) listed else storage.list(location.folder)
    val names = files.map(_.name).filter(References.parse(_).isDefined)
    known.filterInPlace { case ((at, name), _) => at != location || names.contains(name) }
    names.flatMap { name =>
      val of = known.get((location, name)).orElse(References.read(storage, location, name))
      of.foreach(known((location, name)) = _)
      of.getOrElse(Nil) // it was given up meanwhile
    }.toSet
  }
}

private object ReferredFiles {

  /** A list of so few files is one request to any storage. */
  private final val OneRequest = 250
}
