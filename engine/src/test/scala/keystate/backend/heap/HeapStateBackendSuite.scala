package keystate.backend.heap

import keystate.backend.{KeyedStateBackend, KeyedStateBackendSuite}

class HeapStateBackendSuite extends KeyedStateBackendSuite {
  override protected def newBackend(maxParallelism: Int): KeyedStateBackend =
    new HeapStateBackend(maxParallelism)
}
