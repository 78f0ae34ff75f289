package keystate.errors

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, ObjectInputStream, ObjectOutputStream}
import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import keystate.Repository.root

class ErrorCodeSuite extends AnyFunSuite {
  private def text(file: Path) = new String(Files.readAllBytes(file))

  private def scalaSources: Seq[String] =
    Seq("engine", "jvm").flatMap(module => sources(s"$module/src/main/scala", ".scala"))

  private def sources(folder: String, ending: String) = {
    val files = Files.walk(root.resolve(folder))
    try files.iterator.asScala.filter(_.toString.endsWith(ending)).map(text).toVector
    finally files.close()
  }

  test("the catalogue is in order and complete") {
    val names = ErrorCode.all.map(_.name)
    assert(names == names.sorted.distinct)
    ErrorCode.all.foreach { e =>
      assert(e.sqlState.length == 5 && e.meaning.endsWith(".") && e.action.endsWith("."), e)
      assert(e.raisedBy.nonEmpty && e.raisedBy.subsetOf(Set("python", "scala")), e)
    }
  }

  test("the codes with a name in Scala are those that Scala raises, and each is used") {
    val named = ErrorCode.getClass.getMethods.toSeq
      .filter(m => m.getReturnType == classOf[ErrorCode] && m.getParameterCount == 0)
    val codes = named.map(m => m.getName -> m.invoke(ErrorCode).asInstanceOf[ErrorCode])
    assert(codes.map(_._2).sortBy(_.name) == ErrorCode.all.filter(_.raisedBy("scala")))
    codes.foreach { case (name, code) =>
      val words = code.name.stripPrefix("KEYSTATE_").split('_')
      assert(name == words.map(_.toLowerCase.capitalize).mkString)
    }
    val used = scalaSources
      .flatMap("""ErrorCode\.\w+|\w+(?=\.error\()""".r.findAllIn(_))
      .map(_.stripPrefix("ErrorCode."))
      .toSet
    assert(codes.map(_._1).filterNot(used) == Nil)
  }

  test("every code that a text of Scala or Python names is in the catalogue") {
    val known = ErrorCode.all.map(_.name).toSet
    val environment = Set("KEYSTATE_NATIVE", "KEYSTATE_REAL_TIME") // variables of it
    val texts = sources("python/keystate", ".py") ++ scalaSources
    val named = texts.flatMap("KEYSTATE_[A-Z_]*[A-Z]".r.findAllIn(_)).toSet
    assert(named.diff(known ++ environment).isEmpty)
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
