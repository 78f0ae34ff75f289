package org.apache.spark.sql.keystate.python

import java.io.{File, FileInputStream, IOException}
import java.nio.file.attribute.PosixFilePermissions
import java.nio.file.{Files, Path}
import java.util.concurrent.TimeUnit.SECONDS
import java.util.concurrent.atomic.AtomicInteger

import scala.collection.mutable
import scala.io.Source
import scala.jdk.CollectionConverters._

import org.json4s.JsonAST.{JInt, JObject}
import org.scalatest.concurrent.{Eventually, ThreadSignaler, TimeLimitedTests}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Millis, Seconds, Span}

import org.apache.spark.internal.Logging

/** Runs out of file descriptors in a JVM of its own. */
object WithoutFileDescriptors extends Logging {
  def main(args: Array[String]): Unit = {
    // As in every executor, Log4j has read its configuration before: it can't without descriptors.
    logWarning("Logging works", new IOException("an example"))
    val server = new StateServer(() => None)
    val secret = server.register((_, data) => (JObject("size" -> JInt(data.length)), data))
    println(server.address.values("host"))
    // Classes can't be loaded without descriptors either.
    val first = new TestWorker(server.address)
    println(first.identify(secret))
    first.ask("{}", "")
    val socket = TestWorker.socket(server.address)
    val files = mutable.Buffer.empty[FileInputStream]
    try while (true) files += new FileInputStream(args.head)
    catch { case e: IOException => println(e.getMessage.contains("Too many open files")) }
    // The system takes the connection; the server can't.
    val worker = new TestWorker(server.address, socket)
    Thread.sleep(500)
    files.foreach(_.close())
    println(worker.identify(secret))
    println(worker.ask("{}", "abc"))
    println(new TestWorker(server.address).identify(secret))
  }
}

class StateServerSuite extends AnyFunSuite with TimeLimitedTests with Eventually {
  override val timeLimit: Span = Span(60, Seconds)
  override val defaultTestSignaler: ThreadSignaler.type = ThreadSignaler
  implicit override val patienceConfig: PatienceConfig =
    PatienceConfig(Span(10, Seconds), Span(20, Millis))

  private val echo: StateServer.Answerer =
    (_, data) => (JObject("size" -> JInt(data.length)), data)

  private def withServer(
      folder: () => Option[Path] = () => None,
      mostUnidentified: Int = 256,
      identifyMillis: Long = 5000
  )(body: StateServer => Any): Unit = {
    val server = new StateServer(folder, mostUnidentified, identifyMillis)
    try {
      body(server)
      ()
    } finally server.close()
  }

  private def withFolder(body: Path => Any): Unit = {
    val folder = Files.createTempDirectory("keystate-test")
    try {
      body(folder)
      ()
    } finally Files.delete(folder)
  }

  private def withWorker(server: StateServer)(body: TestWorker => Any): Unit = {
    val worker = new TestWorker(server.address)
    try {
      body(worker)
      ()
    } finally worker.close()
  }

  private def assertServes(server: StateServer): Unit = {
    val secret = server.register(echo)
    withWorker(server) { worker =>
      assert(worker.identify(secret))
      assert(worker.ask("{}", "abc") == ("{\"size\":3}", "abc"))
    }
    server.unregister(secret)
  }

  test("a stranger's first length is not believed") {
    withServer() { server =>
      Seq(Int.MaxValue, -1, Int.MinValue, 0, 37).foreach { length =>
        withWorker(server) { stranger =>
          stranger.int(length)
          assert(stranger.isCutOff)
        }
      }
      assertServes(server)
    }
  }

  test("a wrong secret gets no answer, and a task's secret does until the task ends") {
    withServer() { server =>
      val secret = server.register(echo)
      Seq(secret.reverse, secret.updated(35, 'x')).foreach { wrong =>
        withWorker(server) { stranger =>
          assert(!stranger.identify(wrong))
          assert(stranger.isCutOff)
        }
      }
      assertServes(server)
      server.unregister(secret)
      server.unregister(secret)
      withWorker(server)(late => assert(!late.identify(secret)))
    }
  }

  test("a worker is cut off when its task ends, also amid a question") {
    withServer() { server =>
      val answered = new AtomicInteger
      val secret = server.register { (_, data) =>
        answered.incrementAndGet()
        (JObject(), data)
      }
      val workers = Seq.fill(2)(new TestWorker(server.address))
      workers.foreach { worker =>
        assert(worker.identify(secret))
        worker.ask("{}")
      }
      workers.last.frame("{}")
      workers.last.int(3)
      server.unregister(secret)
      assert(workers.forall(_.isCutOff))
      assert(answered.get == 2)
      workers.foreach(_.close())
    }
  }

  test("an error is an answer, and so are lengths that are wrong, or not what follows") {
    withServer() { server =>
      val secret = server.register((_, _) => throw new IllegalStateException("no such state"))
      def worker(body: TestWorker => Any) = withWorker(server) { worker =>
        assert(worker.identify(secret))
        body(worker)
      }
      worker { worker =>
        assert(worker.ask("{}")._1.contains("no such state"))
        assert(worker.ask("no JSON")._1.contains("error"))
        assert(worker.ask("[]")._1.contains("error"))
        assert(worker.ask("{}")._1.contains("no such state"))
      }
      Seq(-1, Int.MinValue).foreach { length =>
        worker { worker =>
          worker.int(length)
          assert(worker.isCutOff)
        }
      }
      // Room is made for what comes: these would be 20 GB.
      val announcing = Seq.fill(10)(new TestWorker(server.address))
      announcing.foreach { worker =>
        assert(worker.identify(secret))
        worker.int(Int.MaxValue)
      }
      assertServes(server)
      announcing.foreach(_.close())
    }
  }

  test("a message of some MB arrives as it was sent") {
    withServer() { server =>
      val secret = server.register(echo)
      val data = "0123456789abcdef" * (300 << 10) + "end"
      withWorker(server) { worker =>
        assert(worker.identify(secret))
        assert(worker.ask("{}", data) == (s"{\"size\":${data.length}}", data))
      }
    }
  }

  test("who says nothing is cut off; a task's worker may be silent") {
    withServer(identifyMillis = 1500) { server =>
      val secret = server.register(echo)
      withWorker(server) { worker =>
        assert(worker.identify(secret))
        withWorker(server) { stranger =>
          stranger.int(36)
          assert(stranger.isCutOff)
        }
        Thread.sleep(1700)
        assert(worker.ask("{}", "abc")._2 == "abc")
      }
    }
  }

  test("of too many who say nothing the oldest are cut off") {
    withServer(mostUnidentified = 4, identifyMillis = 60000) { server =>
      val secret = server.register(echo)
      withWorker(server) { worker =>
        assert(worker.identify(secret))
        val strangers = Seq.fill(50)(new TestWorker(server.address))
        strangers.take(46).foreach(stranger => assert(stranger.isCutOff))
        assertServes(server)
        assert(worker.ask("{}", "abc")._2 == "abc")
        def threads = Thread.getAllStackTraces.keySet.asScala
          .count(thread => thread.isAlive && thread.getName == "keystate-state-connection")
        eventually(assert(threads <= 5))
        strangers.foreach(_.close())
      }
    }
  }

  test("who has just come is not cut off for many others") {
    withServer(mostUnidentified = 4, identifyMillis = 60000) { server =>
      val secret = server.register(echo)
      val hasEnded = new java.util.concurrent.atomic.AtomicBoolean
      val strangers = new java.util.concurrent.ConcurrentLinkedQueue[TestWorker]
      val crowd = Seq.fill(2)(
        new Thread(() =>
          try
            while (!hasEnded.get && strangers.size < 500)
              strangers.add(new TestWorker(server.address))
          catch { case _: java.io.IOException => }
        )
      )
      crowd.foreach(_.start())
      try
        for (_ <- 1 to 3) withWorker(server) { worker =>
          Thread.sleep(20)
          assert(worker.identify(secret))
        }
      finally {
        hasEnded.set(true)
        strangers.forEach(_.close())
        crowd.foreach(_.join(30000))
      }
      assert(strangers.size > 4)
    }
  }

  test("a Unix domain socket that only its owner can reach, and another when it is gone") {
    withFolder { folder =>
      withServer(() => Some(folder)) { server =>
        val path = TestWorker.path(server.address).get
        assert(path.getParent.getParent == folder)
        val permissions = Files.getPosixFilePermissions(path.getParent)
        assert(PosixFilePermissions.toString(permissions) == "rwx------")
        assertServes(server)
        assert(TestWorker.path(server.address).contains(path))
        Files.delete(path)
        assertServes(server)
        assert(!TestWorker.path(server.address).contains(path))
        assert(!Files.exists(path.getParent))
      }
      assert(Files.list(folder).count == 0)
    }
  }

  test("another socket when the settings change, or when no path can be bound") {
    withFolder { folder =>
      var wanted = Option.empty[Path]
      withServer(() => wanted) { server =>
        assert(TestWorker.path(server.address).isEmpty)
        wanted = Some(folder)
        assert(TestWorker.path(server.address).isDefined)
        assertServes(server)
        wanted = Some(folder.resolve("x" * 100))
        assert(TestWorker.path(server.address).isEmpty)
        assertServes(server)
        assert(server.address == server.address)
      }
      val long = Files.createDirectory(folder.resolve("x" * 100))
      withServer(() => Some(long)) { server =>
        assert(TestWorker.path(server.address).isEmpty)
        assertServes(server)
      }
      Files.delete(long)
    }
  }

  test("out of file descriptors it waits, and workers know it by number where names are of IPv6") {
    val java = s"${System.getProperty("java.home")}/bin/java"
    val errors = File.createTempFile("keystate-test", "errors")
    val process = new ProcessBuilder(
      "bash",
      "-c",
      "ulimit -n 400; exec \"$@\"",
      "bash",
      java,
      "-Xmx256m",
      "-Djava.net.preferIPv6Addresses=true",
      "-cp",
      System.getProperty("java.class.path"),
      WithoutFileDescriptors.getClass.getName.stripSuffix("$"),
      errors.getPath
    ).redirectError(errors).start()
    try {
      val lines = Source.fromInputStream(process.getInputStream).getLines().toVector
      val log = Source.fromFile(errors).mkString
      assert(process.waitFor(30, SECONDS) && process.exitValue == 0, log)
      assert(lines == Seq("127.0.0.1", "true", "true", "true", "({\"size\":3},abc)", "true"), log)
      assert(log.contains("The state server accepts connections again"))
    } finally {
      process.destroyForcibly()
      Files.delete(errors.toPath)
    }
  }
}
