package keystate

import java.nio.file.{Files, Path}

/** The files of this repository, for tests that read pages or sources. */
object Repository {

  /** Found from where tests run: the folder of the build, or that of its module. */
  val root: Path = Iterator
    .iterate(Path.of("").toAbsolutePath)(_.getParent)
    .takeWhile(_ != null)
    .find(folder => Files.exists(folder.resolve("build.sbt")))
    .get
}
