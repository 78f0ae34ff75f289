package keystate.backend.heap

import java.io.File

import keystate.backend.{KeyedStateBackend, StateBackendFactory}

/** The backend named `hashmap`. It has no options, and leaves folders alone. */
final class HeapStateBackendFactory extends StateBackendFactory {
  override def configure(options: Map[String, String]): Unit = ()
  override def create(maxParallelism: Int, newFolder: () => File): KeyedStateBackend =
    new HeapStateBackend(maxParallelism)
}
