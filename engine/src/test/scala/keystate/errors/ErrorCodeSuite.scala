package keystate.errors

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, ObjectInputStream, ObjectOutputStream}
import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import keystate.Repository.root

class ErrorCodeSuite extends AnyFunSuite {
  private def text(file: Path) = new String(Files.readAllBytes(file))

  private def sources(folder: String, ending: String) = {
    val files = Files.walk(root.resolve(folder))
    try files.iterator.asScala.filter(_.toString.endsWith(ending)).map(text).toVector
    finally files.close()
  }

  test("docs/errors.md lists the catalogue") {
    val rows = text(root.resolve("docs/errors.md")).linesIterator.filter(_.startsWith("| `")).toSeq
    assert(rows == ErrorCode.all.map { e =>
      s"| `${e.name}` | ${e.sqlState} | ${e.meaning} | ${e.action} |"
    })
  }

  test("the catalogue is in order and complete") {
    val names = ErrorCode.all.map(_.name)
    assert(names == names.sorted.distinct)
    val declared = "new ErrorCode\\(\\s*\"(KEYSTATE_[A-Z_]+)\"".r
    val inFile = sources("engine/src/main/scala/keystate/errors", "ErrorCode.scala")
      .flatMap(declared.findAllMatchIn(_).map(_.group(1)))
    assert(inFile.sorted == names)
    ErrorCode.all.foreach(e => assert(e.sqlState.length == 5, e))
  }

  test("every code that Scala or Python names is in the catalogue, and each is used") {
    val known = ErrorCode.all.map(_.name).toSet
    val environment = Set("KEYSTATE_NATIVE", "KEYSTATE_REAL_TIME") // variables of it
    val literal = "KEYSTATE_[A-Z_]*[A-Z]".r
    val python = sources("python/keystate", ".py").flatMap(literal.findAllIn(_)).toSet
    val scala = Seq("engine", "jvm")
      .flatMap(module => sources(s"$module/src/main/scala", ".scala"))
      .filterNot(_.contains("object ErrorCode"))
    assert((python ++ scala.flatMap(literal.findAllIn(_))).diff(known ++ environment).isEmpty)
    val used = scala.flatMap("ErrorCode\\.(\\w+)".r.findAllMatchIn(_).map(_.group(1))).toSet
    def constant(name: String) =
      name.stripPrefix("KEYSTATE_").split('_').map(_.toLowerCase.capitalize).mkString
    assert(known.filterNot(name => used(constant(name)) || python(name)).isEmpty)
  }

  test("an error has its code") {
    val error = KeystateErrors.nothingCommitted("/there")
    assert(error.code == "KEYSTATE_NO_CHECKPOINT" && error.sqlState == "42K03")
    assert(error.getMessage.startsWith("[KEYSTATE_NO_CHECKPOINT] The checkpoint /there"))
  }

  test("an error comes whole from an executor") {
    val error = KeystateErrors.functionFailed(None, "row 1", new IllegalStateException("why"))
    val bytes = new ByteArrayOutputStream
    new ObjectOutputStream(bytes).writeObject(error)
    val in = new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray))
    val copy = in.readObject().asInstanceOf[KeystateException]
    assert(copy.errorCode eq ErrorCode.FunctionFailed)
    assert(copy.getMessage == error.getMessage && copy.getCause.getMessage == "why")
  }
}
