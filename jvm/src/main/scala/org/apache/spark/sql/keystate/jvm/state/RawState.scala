package org.apache.spark.sql.keystate.jvm.state

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, InputStream}
import java.util.Base64

import scala.collection.mutable

import keystate.errors.KeystateErrors
import keystate.{
  KeyGroupStatePartitionStreamProvider, KeyedStateCheckpointOutputStream,
  OperatorStateCheckpointOutputStream, StatePartitionStreamProvider
}
import org.apache.spark.sql.keystate.state.RawKeyedState

/** The streams of a subtask, each stored as an element of a list. */
private[state] final class RawOutput extends OperatorStateCheckpointOutputStream {
  private val streams = mutable.ArrayBuffer.empty[ByteArrayOutputStream]

  override def startNewPartition(): Unit = streams += new ByteArrayOutputStream

  private def current: ByteArrayOutputStream = {
    if (streams.isEmpty) startNewPartition()
    streams.last
  }

  override def write(byte: Int): Unit = current.write(byte)
  override def write(bytes: Array[Byte], start: Int, length: Int): Unit =
    current.write(bytes, start, length)

  /** The elements of the list. */
  def encoded: Seq[String] =
    streams.map(stream => Base64.getEncoder.encodeToString(stream.toByteArray)).toSeq
}

private[state] object RawOutput {

  /** The list's name in the operator state. */
  val Name = "$raw"

  def decode(elements: Seq[String]): Seq[StatePartitionStreamProvider] = elements.map { element =>
    val bytes = Base64.getDecoder.decode(element)
    new StatePartitionStreamProvider {
      override def getStream: InputStream = new ByteArrayInputStream(bytes)
    }
  }
}

/** The raw keyed streams that an instance restores, by ascending group. They are read on demand,
  * during `initializeState`.
  */
private[state] final class RawKeyedInputs(state: RawKeyedState) {
  private var open = true

  def all: Iterable[KeyGroupStatePartitionStreamProvider] =
    new Iterable[KeyGroupStatePartitionStreamProvider] {
      override def iterator: Iterator[KeyGroupStatePartitionStreamProvider] =
        Iterator.unfold(0) { from =>
          if (!open) throw KeystateErrors.rawStateNotRestored()
          state.next(from).map { case (group, bytes) => (provider(group, bytes), group + 1) }
        }
    }

  private def provider(group: Int, bytes: Array[Byte]) = new KeyGroupStatePartitionStreamProvider {
    override def getKeyGroupId: Int = group
    override def getStream: InputStream = new ByteArrayInputStream(bytes)
  }

  def close(): Unit = open = false
}

/** The streams of a subtask's key groups that a snapshot writes. */
private[state] final class RawKeyedOutput(groups: Range) extends KeyedStateCheckpointOutputStream {
  private val streams = mutable.LinkedHashMap.empty[Int, ByteArrayOutputStream]
  private var current = Option.empty[ByteArrayOutputStream]

  override def getKeyGroupList: Iterable[Int] = groups

  override def startNewKeyGroup(keyGroupId: Int): Unit = {
    if (!groups.contains(keyGroupId))
      throw KeystateErrors.otherKeyGroup(keyGroupId, groups.head, groups.last)
    if (streams.contains(keyGroupId)) throw KeystateErrors.keyGroupBegunTwice(keyGroupId)
    current = Some(streams.getOrElseUpdate(keyGroupId, new ByteArrayOutputStream))
  }

  private def begun = current.getOrElse(throw KeystateErrors.noKeyGroupBegun())

  override def write(byte: Int): Unit = begun.write(byte)
  override def write(bytes: Array[Byte], start: Int, length: Int): Unit =
    begun.write(bytes, start, length)

  def byGroup: Map[Int, Array[Byte]] =
    streams.map { case (group, stream) => group -> stream.toByteArray }.toMap
}
