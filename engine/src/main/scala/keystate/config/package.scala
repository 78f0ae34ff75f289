package keystate

/** The catalogue of settings: name, type, default, and allowed values. All code reads settings
  * here. Not public; only the settings' names are.
  */
package object config
