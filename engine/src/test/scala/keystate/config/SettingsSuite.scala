package keystate.config

import org.scalatest.funsuite.AnyFunSuite

import keystate.errors.BadSettingException
import keystate.keygroup.KeyGroups

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
      "auto.heapShare" -> Seq("0", "1", "half"),
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
      "pickle.allow" -> Seq("Cart", "shop.*", "shop.Cart;shop.Item"),
      "state.maxEntries" -> Seq("0", "-1", "1k", "many"),
      "state.maxBytes" -> Seq("0", "1.5g", "20gb", "99999999t"),
      "state.warnShare" -> Seq("0", "1", "80"),
      "state.onLimit" -> Seq("stop"),
      "checkpoint.sync" -> Seq("yes"),
      "restart.keepSeconds" -> Seq("-1", "1m"),
      "lockTimeoutMs" -> Seq("0", "1m"),
      "parallelism" -> Seq("0")
    )
    assert(wrong.map("spark.keystate." + _._1) == Settings.all.map(_.key))
    for ((name, values) <- wrong; value <- values) {
      val key = s"spark.keystate.$name"
      val error = intercept[BadSettingException](Settings.check(of(key -> value)))
      val allowed = Settings.all.find(_.key == key).get.allowed
      assert(error.getMessage == s"[KEYSTATE_BAD_SETTING] $key is '$value', and must be $allowed.")
    }
  }

  test("each setting that Scala reads has a name, and its type") {
    val named = Settings.getClass.getMethods.toSeq
      .filter(m => m.getReturnType == classOf[Setting[_]] && m.getParameterCount == 0)
      .map(_.invoke(Settings).asInstanceOf[Setting[_]].key)
    // Python alone reads it.
    assert(named.toSet == Settings.all.map(_.key).toSet - "spark.keystate.pickle.allow")
    assert(Settings.Backend.of(of()) == "auto")
    assert(Settings.RocksDBWriteBufferRatio.of(of()) == 0.5)
    assert(!Settings.SyncFiles.of(of()) && Settings.OnRestart.of(of()) == "auto")
    def bytes(text: String) = Settings.MaxBytes.in(of(Settings.MaxBytes.key -> text))
    assert(bytes("300") == Some(300) && bytes("2k") == Some(2048) && bytes("3T") == Some(3L << 40))
    assert(Settings.MaxEntries.in(of()).isEmpty && Settings.WarnShare.of(of()) == 0.8)
  }

  test("bounds that are written elsewhere too") {
    val most = s"a whole number from 1 to ${KeyGroups.MaxMaxParallelism}"
    assert(Seq(Settings.MaxParallelism, Settings.Parallelism).map(_.allowed) == Seq(most, most))
  }

  test("names of classes that a checkpoint may allow") {
    val allowed = Seq("", "shop.Cart", " shop.Cart , shop.models.Item ", "a.b,,c.d", "a.b,")
    for (text <- allowed) Settings.check(of("spark.keystate.pickle.allow" -> text))
  }
}
