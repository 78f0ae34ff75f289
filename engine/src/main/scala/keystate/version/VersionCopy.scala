package keystate.version

import keystate.files.{CheckpointStorage, StoreLocation}

/** Writes the file of a version that another checkpoint has. */
object VersionCopy {

  /** @param pathOf
    *   the path of a run file in the copy
    */
  def write(storage: CheckpointStorage, location: StoreLocation, manifest: Manifest)(
      pathOf: String => String
  ): Unit = {
    val runs = manifest.runs.map { run =>
      run.source match {
        case FileSource(path) => run.copy(source = FileSource(pathOf(path)))
        case _: InlineSource => run
      }
    }
    VersionFile.write(storage, location, manifest.copy(runs = runs))
    ()
  }
}
