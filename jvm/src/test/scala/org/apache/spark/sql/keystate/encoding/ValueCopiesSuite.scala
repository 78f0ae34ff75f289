package org.apache.spark.sql.keystate.encoding

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import keystate.{Box, TypeInformation}

class ValueCopiesSuite extends AnyFunSuite {
  private def copied[T](value: T)(implicit info: TypeInformation[T]): Boolean =
    ValueCopies(info.encoder)(value).asInstanceOf[AnyRef] ne value.asInstanceOf[AnyRef]

  test("what can't be changed is not copied") {
    val texts = Seq("a" * 3, "b")
    assert(!copied(texts.head) && !copied(texts) && !copied(java.lang.Long.valueOf(1000)))
    assert(!copied((texts.head, 1L, Option(2))) && !copied((1L, 2L)))
    assert(!copied(Map(texts.head -> (1, texts))))
  }

  test("what can be changed is copied, wherever it is") {
    assert(copied(Box(1)) && copied(Array(1)) && copied(mutable.Seq(1)))
    assert(copied((1, Array(1))) && copied(Seq(Box(1))) && copied(Map(1 -> Box(1))))
    assert(copied(new java.sql.Timestamp(1)))
    assert(!copied[Option[Box]](None) && copied(Option(Box(1))))
  }
}
