package keystate.version

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, FilterInputStream, IOException}

import scala.util.Try

import net.jpountz.lz4.LZ4FrameOutputStream
import org.scalatest.funsuite.AnyFunSuite

import keystate.keygroup.KeyGroupRange

class UnpackedStreamSuite extends AnyFunSuite {
  private val content = Array.tabulate[Byte](1000)(i => (i % 7).toByte)
  private val packed = {
    val bytes = new ByteArrayOutputStream
    val out = new LZ4FrameOutputStream(bytes)
    out.write(content)
    out.close()
    bytes.toByteArray
  }

  test("the content of a frame") {
    assert(UnpackedStream(new ByteArrayInputStream(packed)).readAllBytes().sameElements(content))
  }

  test("whatever byte is in the place of another, it is an IOException or harmless") {
    val errors = for {
      at <- packed.indices
      value <- Byte.MinValue to Byte.MaxValue
      damaged = packed.updated(at, value.toByte)
      error <- Try(UnpackedStream(new ByteArrayInputStream(damaged)).readAllBytes()).failed.toOption
    } yield error
    assert(errors.forall(_.isInstanceOf[IOException]), errors.map(_.toString).distinct)
    assert(errors.exists(_.getCause.isInstanceOf[IllegalArgumentException]))
  }

  test("a run that can't be unpacked is corrupt, and its stream is closed") {
    var closed = false
    val in = new FilterInputStream(new ByteArrayInputStream(content)) {
      override def close(): Unit = closed = true
    }
    def corrupt(e: Exception) = new IllegalStateException(e)
    assertThrows[IllegalStateException](
      PlainRun.read(UnpackedStream(in), Set(0), KeyGroupRange(0, 1), corrupt)
    )
    assert(closed)
  }
}
