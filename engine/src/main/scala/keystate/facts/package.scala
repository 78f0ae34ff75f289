package keystate

/** What Scala and Python must know alike, as data. The files are those of the Python package, where
  * Python reads them; the build puts them into the jar too. The tables of docs/errors.md and
  * docs/configuration.md are made of them.
  */
package object facts
