package keystate.errors

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

private[keystate] object Facts {

  /** The entries of one of the files, by their names, in its order.
    *
    * @param file
    *   its name without `.json`
    */
  def read(file: String): Seq[(String, JsonNode)] = {
    val in = getClass.getResourceAsStream(s"/keystate/$file.json")
    try
      new ObjectMapper().readTree(in).properties.asScala.toVector.map(e => e.getKey -> e.getValue)
    finally in.close()
  }
}
