package org.apache.spark.sql.keystate.spec

import org.json4s._
import org.json4s.jackson.JsonMethods.{compact, parse}
import org.scalatest.funsuite.AnyFunSuite

import keystate.errors.KeystateException

class OperatorSpecSuite extends AnyFunSuite {
  private def json(text: String) = parse(text).asInstanceOf[JObject]

  private val ttl = json("""{"millis": 5, "event_time": true, "updated_on_read": false,
    "return_expired": false, "sweep_size": 0, "sweep_on_records": false, "drop_on_merge": true}""")

  private val state = json("""{"name": "seen", "kind": "map", "descriptor": "map",
    "value_type": "long", "key_type": "string", "order": "natural", "ttl": null,
    "max_entries": 10}""")

  private val operator = json("""{"name": null, "max_parallelism": 8, "time_mode": "none",
    "timers": true, "states": [], "broadcast": [], "checkpointed": false, "raw_keyed": false,
    "operator_states": [], "side_outputs": false, "metrics": true, "late_outputs": [null, 1],
    "takes_late_rows": false, "takes_columns": false, "windows": null}""")

  private def without(json: JObject, name: String) = JObject(json.obj.filterNot(_._1 == name))

  private def withTtl(ttl: JValue) = JObject(without(state, "ttl").obj :+ ("ttl" -> ttl))

  private def withStates(states: JValue*) =
    JObject(without(operator, "states").obj :+ ("states" -> JArray(states.toList)))

  private def read(operator: JValue) = OperatorSpec.fromJson(compact(operator))

  test("an operator as Python declares it") {
    val spec = read(withStates(state, withTtl(ttl)))
    assert(spec.name.isEmpty && spec.maxParallelism.contains(8) && spec.metrics)
    assert(spec.lateOutputs == Seq(None, Some(1)))
    assert(spec.states.map(_.describe) == Seq.fill(2)("map<STRING, BIGINT>"))
    assert(spec.states.map(_.ttl.map(_.millis)) == Seq(None, Some(5)))
    assert(spec.states.map(_.maxEntries) == Seq.fill(2)(Some(10)))
  }

  test("what a package of another release does not say is an error") {
    def refused(what: String, json: JObject)(whole: JObject => JObject) =
      json.obj.map(_._1).foreach { name =>
        val error = intercept[KeystateException](read(whole(without(json, name))))
        assert(error.code == "KEYSTATE_PROTOCOL")
        assert(error.getMessage.contains(s"does not say '$name' of $what"))
      }
    refused("an operator", operator)(identity)
    refused("a state", state)(state => withStates(state))
    refused("a time to live", ttl)(ttl => withStates(withTtl(ttl)))
  }
}
