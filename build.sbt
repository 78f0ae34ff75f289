import java.util.Properties

import scala.jdk.CollectionConverters._
import scala.xml.Node
import scala.xml.transform.{RewriteRule, RuleTransformer}

val versions: Map[String, String] = {
  val properties = new Properties
  IO.load(properties, file("python/keystate/versions.properties"))
  properties.asScala.toMap
}

/** The supported minor lines of Spark in order, each with the release that is compiled against. */
val sparks: Seq[(String, String)] = {
  val releases = versions("sparks").split(' ').toSeq.sortBy(_.split('.')(1).toInt)
  releases.map(v => v.split('.').take(2).mkString(".") -> v)
}
val lines = sparks.map(_._1)
val defaultLine = versions("sparks").split('.').take(2).mkString(".")

/** The line to build for: SPARK=4.3 ./sbt package. */
val sparkLine = sys.env.get("SPARK").filter(_.nonEmpty).getOrElse(defaultLine)
val sparkVersion = sparks.toMap.getOrElse(
  sparkLine,
  sys.error(s"SPARK=$sparkLine: the supported ones are ${lines.mkString(", ")}")
)

/** The jars of PySpark, which tests in Python need anyway, so Spark is not downloaded a second time. `make
  * jar SPARK=4.3` installs PySpark before it starts sbt.
  */
def installedSpark: Seq[File] = {
  val suffix = if (sparkLine == defaultLine) "" else s"-spark$sparkLine"
  val venv = file(s".venv$suffix").getAbsoluteFile // tests run in another folder
  val jars = (venv / "lib" * "python*" / "site-packages" / "pyspark" / "jars" * "*.jar").get
  if (jars.isEmpty) sys.error(s"PySpark $sparkVersion is not there: make install SPARK=$sparkLine")
  jars
}

/** Code that differs between versions of Spark is in folders next to `scala`. Each is for one line,
  * as `scala-spark4.3`, or for a line and those up to another one, as `scala-spark4.1-4.2`.
  */
def foldersByLine(sources: File): Seq[File] = (sources * "scala-spark*").get

def isFor(line: String)(folder: File): Boolean = {
  val ends = folder.getName.stripPrefix("scala-spark").split('-')
  lines.slice(lines.indexOf(ends.head), lines.indexOf(ends.last) + 1).contains(line)
}

/** What Spark and RocksDB's library may do, of which newer Javas warn; older ones take no notice. */
val nativeOptions = Seq(
  "-XX:+IgnoreUnrecognizedVMOptions",
  "--sun-misc-unsafe-memory-access=allow",
  "--enable-native-access=ALL-UNNAMED"
)

/** What Spark opens to itself (org.apache.spark.launcher.JavaModuleOptions). */
val sparkModuleOptions = "--add-modules=jdk.incubator.vector" +: Seq(
  "java.base/java.lang",
  "java.base/java.lang.invoke",
  "java.base/java.lang.reflect",
  "java.base/java.io",
  "java.base/java.net",
  "java.base/java.nio",
  "java.base/java.util",
  "java.base/java.util.concurrent",
  "java.base/java.util.concurrent.atomic",
  "java.base/jdk.internal.ref",
  "java.base/sun.nio.ch",
  "java.base/sun.nio.cs",
  "java.base/sun.security.action",
  "java.base/sun.util.calendar",
  "java.security.jgss/sun.security.krb5"
).map(opened => s"--add-opens=$opened=ALL-UNNAMED")

/** To generate code for whole stages and compile it takes much of the CPU time of queries as small as
  * those of tests, and Keystate generates none. On Sparks that are not the default one, and with SLOW=1,
  * Spark does as for users.
  */
val withoutCodegen: Seq[String] =
  if (sparkLine != defaultLine || sys.env.contains("SLOW")) Nil
  else Seq("-Dspark.sql.codegen.wholeStage=false")

/** Where tests have their temporary files. It is there as long as sbt runs. */
val temporary = {
  val folder = file(sys.props("java.io.tmpdir")) / s"keystate-sbt-${ProcessHandle.current.pid}"
  sys.addShutdownHook(IO.delete(folder))
  folder
}

ThisBuild / scalaVersion := versions("scala")

/** Suites run in so many JVMs at a time, one after the other in each: one more than there are cores in
  * CI, for they wait a third of their time.
  */
val testJvms = 3

Global / concurrentRestrictions := Seq(
  Tags.limitAll(testJvms + 2),
  Tags.limit(Tags.ForkedTestGroup, testJvms)
)

lazy val sparkJars = taskKey[Seq[Attributed[File]]]("The jars that Spark brings.")

/** Of the jars that Spark brings, those that the engine uses. */
def isOfEngine(jar: Attributed[File]): Boolean =
  Seq(
    "rocksdbjni-",
    "lz4-java-",
    "jackson-databind-",
    "jackson-core-",
    "jackson-annotations-",
    "slf4j-api-"
  )
    .exists(name => jar.data.getName.startsWith(name))

/** What both modules are compiled and tested with. */
val common = Seq(
  target := baseDirectory.value / "target" / s"spark$sparkLine",
  scalacOptions ++= Seq(
    "-release:17",
    "-encoding:utf8",
    "-deprecation",
    "-feature",
    "-unchecked",
    "-Xlint",
    "-Wdead-code",
    "-Wextra-implicit",
    "-Wvalue-discard",
    "-Werror"
  ),
  libraryDependencies ++= Seq(
    "org.scalatest" %% "scalatest" % versions("scalatest") % Test,
    "org.scalatestplus" %% "scalacheck-1-18" % s"${versions("scalatest")}.0" % Test
  ),
  Test / fork := true,
  Test / testGrouping := {
    // Compiled by the Java that sbt runs in, and run by this one: make test JDK=25.
    val java = sys.env.get("KEYSTATE_TEST_JAVA").filter(_.nonEmpty).map(file)
    val options = (Test / forkOptions).value
      .withJavaHome(java.orElse((Test / javaHome).value))
    val dealt = (Test / definedTests).value.sortBy(_.name).zipWithIndex.groupBy(_._2 % testJvms)
    dealt.toSeq.map { case (n, suites) =>
      Tests.Group(s"suites $n", suites.map(_._1), Tests.SubProcess(options))
    }
  },
  // Most code of a suite runs a few times: to optimize it takes a fifth of all CPU time. The cache is as
  // large as with the optimizer: in a fifth of that, compiled code is thrown away and compiled again.
  Test / javaOptions ++=
    nativeOptions ++
      Seq(
        "-Xmx3g",
        "-Xss4m",
        "-XX:TieredStopAtLevel=1",
        "-XX:ReservedCodeCacheSize=240m",
        "-XX:+UseSerialGC",
        s"-Djava.io.tmpdir=$temporary"
      ),
  Test / testOptions ++= Seq(
    Tests.Setup(() => IO.createDirectory(temporary)),
    Tests.Argument(TestFrameworks.ScalaTest, "-oD")
  ),
  // Spark's own suites take more than an hour: SLOW=1 ./sbt "jvm/testOnly *.Keystate*"
  Test / testOptions ++= {
    if (sys.env.contains("SLOW")) Nil
    else Seq(Tests.Argument(TestFrameworks.ScalaTest, "-l", "org.scalatest.tags.Slow"))
  }
)

/** A POM without the dependency on a module of this build. */
def withoutModule(id: String): Node => Node = new RuleTransformer(new RewriteRule {
  override def transform(node: Node): Seq[Node] =
    if (node.label == "dependency" && (node \ "artifactId").text.startsWith(id)) Nil else node
}).transform(_).head

/** What needs no Spark: backends, run and version files, checkpoints, settings and errors. It is in
  * the jar of the module below. Spark is not on its class path.
  */
lazy val engine = project.settings(
  common,
  moduleName := "keystate-engine",
  publish / skip := true,
  // Facts that Python reads too.
  Compile / resourceGenerators += Def.task {
    Seq("errors.json", "settings.json").map { name =>
      val copy = (Compile / resourceManaged).value / "keystate" / name
      IO.copyFile((ThisBuild / baseDirectory).value / "python" / "keystate" / name, copy)
      copy
    }
  },
  Compile / unmanagedJars ++= (LocalProject("jvm") / sparkJars).value.filter(isOfEngine)
)

lazy val jvm = project
  .dependsOn(engine % "compile->compile;test->test")
  .settings(
    common,
    name := "Keystate",
    organization := versions("group"),
    moduleName := s"keystate-spark$sparkLine",
    version := versions("keystate"),
    versionScheme := Some("early-semver"),
    description := "Typed keyed state, timers and TTL, as in Flink, for Spark Structured Streaming",
    // A Maven repository of files, for --packages: make dist.
    publishTo := Some(MavenCache("dist", (ThisBuild / baseDirectory).value / "dist" / "maven")),
    Seq(Compile, Test).flatMap { in =>
      Seq(
        in / unmanagedSourceDirectories ++=
          foldersByLine((in / sourceDirectory).value).filter(isFor(sparkLine)),
        // Formatted for every version.
        in / scalafmt / unmanagedSources := {
          val others = foldersByLine((in / sourceDirectory).value).filterNot(isFor(sparkLine))
          (in / unmanagedSources).value ++ others.flatMap(folder => (folder ** "*.scala").get)
        }
      )
    },
    licenses := Seq(License.Apache2),
    homepage := versions.get("url").filter(_.nonEmpty).map(url),
    scmInfo := homepage.value.map(place => ScmInfo(place, s"scm:git:$place.git")),
    pomExtra := <developers><developer><name>The Keystate authors</name></developer></developers>,
    Compile / doc / scalacOptions -= "-Werror",
    // Users of the Kafka sink bring it, with Spark's package for Kafka.
    libraryDependencies +=
      ("org.apache.kafka" % "kafka-clients" % versions("kafka") % Provided).intransitive(),
    // Spark's own suites, which a state store provider has to pass.
    libraryDependencies ++=
      versions.get(s"suites$sparkLine").toSeq.flatMap { release =>
        // For a suite of Spark's.
        val mocks = "org.scalatestplus" %% "mockito-5-12" % s"${versions("scalatest")}.0" % Test
        mocks +: Seq("core", "catalyst", "sql").map { module =>
          ("org.apache.spark" %% s"spark-$module" % release % Test classifier "tests")
            .intransitive()
        }
      },
    // In the build only: what is unmanaged does not get into the jar.
    Compile / unmanagedJars ++= installedSpark.classpath,
    sparkJars := (Compile / managedClasspath).value ++ (Compile / unmanagedJars).value,
    Test / javaOptions ++= sparkModuleOptions ++ withoutCodegen,
    Test / envVars += "SPARK_LOCAL_IP" -> "127.0.0.1",
    // The engine is in this jar, so nobody needs one of its own.
    Compile / packageBin / mappings ++= (engine / Compile / packageBin / mappings).value,
    Compile / packageSrc / mappings ++= (engine / Compile / packageSrc / mappings).value,
    Compile / doc / sources ++= (engine / Compile / doc / sources).value,
    pomPostProcess := withoutModule("keystate-engine"),
    Compile / packageBin / mappings ++= Seq("LICENSE", "NOTICE").map { name =>
      (ThisBuild / baseDirectory).value / name -> s"META-INF/$name"
    },
    // The jar also goes into the Python package, in place of an older one for the same Spark.
    Compile / packageBin := {
      val jar = (Compile / packageBin).value
      val jars = (ThisBuild / baseDirectory).value / "python" / "keystate" / "jars"
      val ofThisSpark = jars * s"${moduleName.value}_*.jar"
      IO.delete(ofThisSpark.get.filterNot(_.getName == jar.getName))
      IO.copyFile(jar, jars / jar.getName, preserveLastModified = true)
      jar
    }
  )
