package keystate

/** The catalogue of settings: name, type, default, what is allowed. Whatever reads a setting reads
  * it from here. Not public; the names of the settings are.
  */
package object settings
