package org.apache.spark.sql.keystate.store

import org.scalatest.Assertions

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._

import org.apache.spark.sql.keystate.KeyGroupStateStoreProvider

/** Stores with a column family of one of Spark's key encodings. */
trait ColumnFamilyFixture extends ProviderFixture { this: Assertions =>

  protected def withStore(spec: KeyStateEncoderSpec, multipleValues: Boolean = false)(
      body: KeyGroupStateStore => Any
  ): Any = withProvider(newProvider()) { provider =>
    val store = provider.getStore(0, None)
    store.createColFamilyIfAbsent("cf", spec.keySchema, valueSchema, spec, multipleValues)
    body(store.asInstanceOf[KeyGroupStateStore])
    store.commit()
    val committed = contentOf(provider)
    withProvider(newProvider(provider.stateStoreId.checkpointRootLocation)) { reader =>
      val declaring = reader.getStore(1, None)
      declaring.createColFamilyIfAbsent("cf", spec.keySchema, valueSchema, spec, multipleValues)
      declaring.abort()
      assert(contentOf(reader) == committed)
    }
  }

  private def contentOf(provider: KeyGroupStateStoreProvider): Set[(UnsafeRow, UnsafeRow)] = {
    val store = provider.getReadStore(1, None)
    try store.iterator("cf").map(pair => (pair.key.copy(), pair.value.copy())).toSet
    finally store.release()
  }

  protected def longs(pairs: Iterator[UnsafeRowPair], ordinal: Int): Seq[Long] =
    pairs.map(_.key.getLong(ordinal)).toVector
}
