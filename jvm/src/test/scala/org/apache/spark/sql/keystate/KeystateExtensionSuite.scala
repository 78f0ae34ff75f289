package org.apache.spark.sql.keystate

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.SPARK_VERSION

import keystate.errors.{ErrorCode, KeystateException}
import org.apache.spark.sql.keystate.shim.SparkLine

class KeystateExtensionSuite extends AnyFunSuite {
  test("the jar is for the Spark that it was built with, and its patch releases") {
    KeystateExtension.check(SPARK_VERSION)
    KeystateExtension.check(s"${SparkLine.Name}.7")
  }

  test("another Spark is refused, with the name of its jar") {
    for (running <- Seq("4.9.0", s"${SparkLine.Name}0.1", "5.0.0-preview1")) {
      val error = intercept[KeystateException](KeystateExtension.check(running))
      assert(error.errorCode == ErrorCode.SparkVersion)
      val jar = s"keystate-spark${running.split('.').take(2).mkString(".")},"
      assert(error.getMessage.contains(jar), error.getMessage)
    }
  }
}
