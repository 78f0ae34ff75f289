package org.apache.spark.sql.keystate

import java.io.{DataInputStream, DataOutputStream}
import java.net.{InetAddress, Socket}
import java.nio.charset.StandardCharsets.UTF_8

import scala.util.Using

import org.json4s.JsonAST.{JInt, JObject}
import org.scalatest.funsuite.AnyFunSuite

class StateServerSuite extends AnyFunSuite {

  /** Says something to the server; reads what comes back, up to the end. */
  private def exchange(say: DataOutputStream => Unit): Array[Byte] =
    Using.resource(new Socket(InetAddress.getLoopbackAddress, StateServer.port)) { socket =>
      socket.setSoTimeout(10000)
      val out = new DataOutputStream(socket.getOutputStream)
      say(out)
      socket.shutdownOutput()
      new DataInputStream(socket.getInputStream).readAllBytes()
    }

  private def frame(text: String)(out: DataOutputStream): Unit = {
    out.writeInt(text.length)
    out.write(text.getBytes(UTF_8))
  }

  test("a stranger's first length is not believed") {
    Seq(Int.MaxValue, -1, Int.MinValue, 0, 37).foreach { length =>
      assert(exchange(_.writeInt(length)).isEmpty)
    }
  }

  test("a wrong secret gets no answer, and a task's secret does until the task ends") {
    val secret = StateServer.register((_, data) => (JObject("size" -> JInt(data.length)), data))
    def ask(key: String) = exchange { out =>
      frame(key)(out)
      frame("{}")(out)
      frame("abc")(out)
    }
    assert(exchange(frame(secret.reverse)).isEmpty)
    val answer = "{\"size\":3}"
    assert(
      ask(secret).toSeq == Seq[Byte](0, 0, 0, 10) ++ answer.getBytes(UTF_8) ++
        Seq[Byte](0, 0, 0, 3) ++ "abc".getBytes(UTF_8)
    )
    StateServer.unregister(secret)
    assert(exchange(frame(secret)).isEmpty)
  }
}
