package keystate.checkpoint

import scala.collection.immutable.VectorMap

import keystate.backend.{Layout, RunFormat, StateFamily}
import keystate.errors.StateMismatchException
import keystate.files.StoreLocation
import keystate.version.Manifest

/** The families of a store in its open transaction. The manifest has the committed families. */
private[checkpoint] final class WorkingFamilies(location: StoreLocation) {
  private var byName = VectorMap.empty[String, StateFamily]
  private var nextFreeId = 0

  def all: Iterable[StateFamily] = byName.values
  def ids: Set[Int] = byName.valuesIterator.map(_.id).toSet
  def get(name: String): Option[StateFamily] = byName.get(name)

  /** The id of the next new family. */
  def nextId: Int = nextFreeId

  /** Goes back to a version's families. */
  def reset(manifest: Manifest): Unit = {
    byName = VectorMap.from(manifest.families.map(family => family.name -> family))
    nextFreeId = manifest.nextFamilyId
  }

  /** Finds or makes a family. Throws if it is there with another layout, kind or order. */
  def register(name: String, layout: Layout, properties: Map[String, String]): StateFamily = {
    val family = byName.get(name) match {
      case Some(known) =>
        val fixed = Seq("kind", "order")
        if (
          known.layout != layout || fixed.exists(p => known.properties.get(p) != properties.get(p))
        )
          throw new StateMismatchException(
            location,
            known,
            properties.getOrElse("kind", ""),
            layout.name
          )
        known.copy(properties = properties)
      case None =>
        require(nextFreeId <= RunFormat.MaxFamilyId, "too many states were made in this store")
        nextFreeId += 1
        StateFamily(nextFreeId - 1, name, layout, properties)
    }
    byName = byName.updated(name, family)
    family
  }

  /** Takes out a family; None if there is none of this name. */
  def drop(name: String): Option[StateFamily] = {
    val family = byName.get(name)
    byName -= name
    family
  }
}
