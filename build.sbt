import java.util.Properties
import scala.jdk.CollectionConverters._

val versions: Map[String, String] = {
  val properties = new Properties
  IO.load(properties, file("python/keystate/versions.properties"))
  properties.asScala.toMap
}
val sparkLine = versions("spark").split('.').take(2).mkString(".")

/** What Spark opens to itself on JDK 17 (org.apache.spark.launcher.JavaModuleOptions). */
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

ThisBuild / scalaVersion := versions("scala")

lazy val jvm = project
  .settings(
    moduleName := s"keystate-spark$sparkLine",
    version := versions("keystate"),
    licenses := Seq(License.Apache2),
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
      "org.apache.spark" %% "spark-sql" % versions("spark") % Provided,
      "org.scalatest" %% "scalatest" % versions("scalatest") % Test,
      "org.scalatestplus" %% "scalacheck-1-18" % s"${versions("scalatest")}.0" % Test,
      // For a suite of Spark's.
      "org.scalatestplus" %% "mockito-5-12" % s"${versions("scalatest")}.0" % Test
    ),
    // Spark's own suites, which a state store provider has to pass.
    libraryDependencies ++= Seq("core", "catalyst", "sql").map(module =>
      "org.apache.spark" %% s"spark-$module" % versions("spark") % Test classifier "tests"
    ),
    Test / fork := true,
    Test / parallelExecution := false,
    Test / javaOptions ++= sparkModuleOptions ++ Seq("-Xmx3g", "-Xss4m"),
    Test / envVars += "SPARK_LOCAL_IP" -> "127.0.0.1",
    Test / testOptions += Tests.Argument(TestFrameworks.ScalaTest, "-oD"),
    // Spark's own suites take more than an hour: SLOW=1 ./sbt "jvm/testOnly *.Keystate*"
    Test / testOptions ++= {
      if (sys.env.contains("SLOW")) Nil
      else Seq(Tests.Argument(TestFrameworks.ScalaTest, "-l", "org.scalatest.tags.Slow"))
    },
    Compile / packageBin / mappings ++= Seq("LICENSE", "NOTICE").map { name =>
      (ThisBuild / baseDirectory).value / name -> s"META-INF/$name"
    },
    // The jar also goes into the Python package, in place of any older one.
    Compile / packageBin := {
      val jar = (Compile / packageBin).value
      val jars = (ThisBuild / baseDirectory).value / "python" / "keystate" / "jars"
      IO.delete((jars * "keystate-*.jar").get.filterNot(_.getName == jar.getName))
      IO.copyFile(jar, jars / jar.getName, preserveLastModified = true)
      jar
    }
  )
