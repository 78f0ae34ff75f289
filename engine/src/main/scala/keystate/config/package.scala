package keystate

/** The catalogue of settings: name, type, default, and what is allowed. Whatever reads a setting
  * reads it here. Not public; only the settings' names are.
  */
package object config
