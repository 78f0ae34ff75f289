package keystate.settings

import java.nio.file.Files

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import keystate.Repository
import keystate.errors.BadSettingException

class SettingsSuite extends AnyFunSuite {
  private def of(pairs: (String, String)*): String => Option[String] = pairs.toMap.get

  test("values, defaults, and white space around them") {
    assert(Settings.MaxCachedKeys.of(of()) == 200000)
    assert(Settings.MaxCachedKeys.of(of("spark.keystate.worker.maxCachedKeys" -> " 7 ")) == 7)
    assert(Settings.MaxParallelism.in(of()).isEmpty)
    assert(Settings.BroadcastCheck.of(of("spark.keystate.broadcast.check" -> "TRUE")))
    Settings.check(of())
  }

  test("what is not allowed is named with its setting and what is") {
    val wrong = Seq(
      "maxParallelism" -> Seq("0", "40000", "many", ""),
      "backend" -> Seq(" "),
      "rocksdb.memoryMB" -> Seq("0", "-1", "much", "1.5"),
      "rocksdb.writeBufferRatio" -> Seq("0", "1", "half"),
      "rocksdb.predefinedOptions" -> Seq("FAST", "default"),
      "rescale.onRestart" -> Seq("bogus", "true"),
      "removedStates" -> Seq("drop"),
      "replacedStates" -> Seq("true"),
      "worker.maxCachedKeys" -> Seq("-5", "0", "abc", "3000000000"),
      "worker.inlineEntries" -> Seq("-1", "abc"),
      "broadcast.check" -> Seq("yes"),
      "ui.sampleKeys" -> Seq("-1", "all"),
      "pickle.allow" -> Seq("Cart", "shop.Cart;os.system"),
      "checkpoint.sync" -> Seq("yes"),
      "lockTimeoutMs" -> Seq("0", "1m"),
      "parallelism" -> Seq("0")
    )
    assert(wrong.map("spark.keystate." + _._1) == Settings.all.map(_.key))
    for ((name, values) <- wrong; value <- values) {
      val key = s"spark.keystate.$name"
      val error = intercept[BadSettingException](Settings.check(of(key -> value)))
      val allowed = Settings.all.find(_.key == key).get.allowed
      assert(
        error.getMessage == s"[KEYSTATE_BAD_SETTING] $key is '$value', and must be $allowed."
      )
    }
  }

  test("README's table has these settings with these defaults") {
    val table = Files.readAllLines(Repository.root.resolve("README.md")).asScala.collect {
      case line if line.startsWith("| `spark.keystate.") =>
        val Array(_, key, default, changes, _*) = line.split('|').map(_.trim): @unchecked
        (key.replace("`", ""), default, changes)
    }
    assert(table.map(_._1).toSeq == Settings.all.map(_.key))
    table.zip(Settings.all).foreach { case ((key, default, changes), setting) =>
      setting.default.foreach(value => assert(default.replace("`", "") == value.toString, key))
      assert(setting.meaning.nonEmpty && changes == "no" == setting.fixed, key)
    }
  }
}
