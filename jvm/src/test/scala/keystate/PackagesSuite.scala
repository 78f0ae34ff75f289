package keystate

import java.io.{PrintWriter, StringWriter}
import java.nio.file.{Files, Path, Paths}
import java.util.spi.ToolProvider

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.json4s.JInt
import org.json4s.jackson.JsonMethods
import org.scalatest.funsuite.AnyFunSuite

import keystate.backend.KeyedStateBackend

/** The structure of the code, by its classes and folders; docs/dev/architecture.md describes it. */
class PackagesSuite extends AnyFunSuite {
  private val root = "org.apache.spark.sql.keystate"
  private val mostParameters = 12

  /** The limits of `make counts`, which holds them for the files of all Spark versions. */
  private val limits =
    JsonMethods.parse(Files.readString(Repository.root.resolve("tests/limits.json")))

  private def most(what: String): Int = limits \ what match {
    case JInt(number) => number.toInt
    case _ => fail(s"no limit of $what")
  }

  /** Spark's constructors, which some of ours repeat. */
  private val ofSpark = Set(s"$root.shim.TransformWithStateInPySparkOnKeystate")

  /** Of the engine, and of what is above it. */
  private val modules = Seq("engine", "jvm")

  private val classes: Seq[Path] = Seq(classOf[KeyedStateBackend], classOf[RichFunction])
    .map(one => Paths.get(one.getProtectionDomain.getCodeSource.getLocation.toURI))

  /** Which class uses which, by the JDK's jdeps. */
  private def uses: Seq[(String, String)] = {
    val jdeps = ToolProvider.findFirst("jdeps").get
    val out = new StringWriter
    val writer = new PrintWriter(out)
    val arguments = "-verbose:class" +: "-filter:none" +: classes.map(_.toString)
    assert(jdeps.run(writer, writer, arguments: _*) == 0)
    val arrow = """   (\S+) +-> (\S+).*""".r
    out.toString.linesIterator.collect {
      case arrow(from, to) if isOurs(from) && isOurs(to) => (from, to)
    }.toSeq
  }

  private def isOurs(name: String) =
    name.startsWith("keystate.") || name.startsWith(s"$root.")

  private def packageOf(name: String) =
    // What `import keystate._` adds to a Dataset is made by a package above.
    if (name.startsWith("keystate.package")) "import keystate._"
    else name.take(name.lastIndexOf('.'))

  test("no package uses one that uses it, directly or by others") {
    val arrows = uses
      .map { case (from, to) => (packageOf(from), packageOf(to)) }
      .filter { case (from, to) => from != to }
      .groupMap(_._1)(_._2)
      .map { case (from, to) => from -> to.toSet }
    assert(arrows.size > 20, "jdeps told too little")
    def reached(from: String): Set[String] = {
      val seen = mutable.Set.empty[String]
      def visit(name: String): Unit =
        arrows.getOrElse(name, Set.empty).filter(seen.add).foreach(visit)
      visit(from)
      seen.toSet
    }
    assert(arrows.keys.filter(name => reached(name)(name)).toSeq.sorted == Nil)
  }

  test("what is below keystate uses of Spark's namespace only what API functions are made by") {
    val allowed = Map(
      "keystate" -> Set(s"$root.encoding"),
      "keystate.stream" -> Set(s"$root.jvm", s"$root.source"),
      "keystate.windows" -> Set(s"$root.encoding", s"$root.jvm", s"$root.jvm.state"),
      "keystate.testing" -> Set(s"$root.jvm.testing"),
      "import keystate._" -> Set.empty[String]
    ).withDefaultValue(Set.empty[String])
    val found = uses.collect {
      case (from, to) if from.startsWith("keystate.") && to.startsWith(root) =>
        (packageOf(from), packageOf(to))
    }.distinct
    assert(found.filterNot { case (from, to) => allowed(from)(to) } == Nil)
  }

  /** By their folder below `src/main/scala`. */
  private lazy val sources: Map[Path, Seq[Path]] = modules.flatMap { module =>
    val stream = Files.walk(Repository.root.resolve(s"$module/src/main/scala"))
    try stream.iterator.asScala.filter(_.toString.endsWith(".scala")).toSeq.groupBy(_.getParent)
    finally stream.close()
  }.toMap

  private def nameOf(folder: Path): String = {
    val parts = folder.iterator.asScala.map(_.toString).toSeq
    parts.drop(parts.lastIndexOf("main") + 2).mkString(".")
  }

  test("there are few packages, and each has a doc and not too much in it") {
    assert(sources.size <= most("Scala packages"))
    sources.foreach { case (folder, files) =>
      val doc = folder.resolve("package.scala")
      assert(files.contains(doc), s"$folder has no package.scala")
      assert(Files.readString(doc).contains("/** "), s"$doc says nothing")
      assert(files.size <= most("files of a Scala package"), s"$folder has ${files.size} files")
      val lines = files.map(Files.readAllLines(_).size).sum
      assert(lines <= most("lines of a Scala package"), s"$folder has $lines lines")
    }
  }

  test("no file imports from many of our packages") {
    val names = sources.keys.map(nameOf).toSeq.sortBy(-_.length)
    val imports = "(?m)^import ([\\w.]+)".r
    val found = for ((folder, files) <- sources.toSeq; file <- files) yield {
      val packages = imports.findAllMatchIn(Files.readString(file)).map(_.group(1)).flatMap { one =>
        names.find(name => one == name || one.startsWith(s"$name."))
      }
      (packages.toSet - nameOf(folder)).size -> file
    }
    assert(found.map(_._1).max > 5, "it finds some")
    assert(found.filter(_._1 > most("own packages imported by a Scala file")) == Nil)
  }

  test("no class inherits from many of our classes, one from the other") {
    def depth(of: Class[_]): Int =
      if (of == null || !isOurs(of.getName)) 0 else 1 + depth(of.getSuperclass)
    val found = classes.flatMap(namesIn).filter(isOurs).map { name =>
      depth(Class.forName(name, false, getClass.getClassLoader)) -> name
    }
    assert(found.map(_._1).max > 2, "it finds some")
    assert(found.filter(_._1 > most("inheritance of Scala classes")) == Nil)
  }

  test("no class has many constructor parameters, but those that Spark's have too") {
    val folders = classes.filter(Files.isDirectory(_))
    assert(folders.size == classes.size, "classes are in folders")
    val found = for {
      folder <- folders
      name <- namesIn(folder)
      constructor <- Class.forName(name, false, getClass.getClassLoader).getDeclaredConstructors
      if !constructor.isSynthetic && constructor.getParameterCount > mostParameters
    } yield name
    assert(found.distinct.filterNot(ofSpark) == Nil)
  }

  private def namesIn(folder: Path): Seq[String] = {
    val stream = Files.walk(folder)
    try
      stream.iterator.asScala
        .map(folder.relativize(_).toString)
        .filter(_.endsWith(".class"))
        .map(_.stripSuffix(".class").replace('/', '.'))
        .toSeq
    finally stream.close()
  }
}
