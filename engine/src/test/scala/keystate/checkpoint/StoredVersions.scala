package keystate.checkpoint

import keystate.files.{CheckpointStorage, StoreLocation}
import keystate.version.{Manifest, VersionFile}

/** Version files as a test wants them. */
object StoredVersions {
  def read(
      storage: CheckpointStorage,
      location: StoreLocation,
      version: Long,
      name: Option[String]
  ): Manifest = VersionFile.read(storage, location, version, name)

  /** Under the name that a version after a rescale has with checkpoint format v1. */
  def write(storage: CheckpointStorage, location: StoreLocation, manifest: Manifest): Unit = {
    VersionFile.write(storage, location, manifest)
    ()
  }
}
