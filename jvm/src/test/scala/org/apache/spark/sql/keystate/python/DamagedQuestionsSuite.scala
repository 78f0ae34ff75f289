package org.apache.spark.sql.keystate.python

import java.nio.ByteBuffer
import java.nio.channels.SocketChannel
import java.nio.charset.StandardCharsets.UTF_8

import org.json4s.JsonAST.{JInt, JObject, JString}
import org.scalatest.funsuite.AnyFunSuite

import keystate.faults.Fuzzing

/** Whatever comes over a worker's connection: an answer, or the connection ends; the next one works. */
class DamagedQuestionsSuite extends AnyFunSuite {
  test("damaged questions") {
    val server = new StateServer(() => None)
    val secret = server.register { (question, keys) =>
      val op = question \ "op" match {
        case text: JString => text
        case other => throw new IllegalArgumentException(s"op is $other")
      }
      (JObject("op" -> op, "keys" -> JInt(keys.length)), keys)
    }
    try {
      def part(text: String): Array[Byte] =
        ByteBuffer.allocate(4 + text.length).putInt(text.length).put(text.getBytes(UTF_8)).array
      val asked = Seq("""{"op":"get","key_index":1}""", "keys").map(part).reduce(_ ++ _)
      Fuzzing.run("questions", 8L << 20) { random =>
        val said =
          if (random.nextInt(4) == 0) Fuzzing.damage(random, part(secret) ++ asked)
          else part(secret) ++ Fuzzing.damage(random, asked ++ asked)
        val worker = SocketChannel.open(TestWorker.socketAddress(server.address))
        try {
          val buffer = ByteBuffer.wrap(said)
          while (buffer.hasRemaining) worker.write(buffer)
          worker.shutdownOutput()
          val answer = ByteBuffer.allocate(1 << 16)
          while (worker.read(answer) >= 0) answer.clear()
        } catch {
          case _: java.io.IOException => // it was closed while this wrote
        } finally worker.close()

        val next = new TestWorker(server.address)
        try {
          assert(next.identify(secret))
          assert(next.ask("""{"op":"x"}""", "abc") == (("""{"op":"x","keys":3}""", "abc")))
        } finally next.close()
      }
    } finally server.close()
  }
}
