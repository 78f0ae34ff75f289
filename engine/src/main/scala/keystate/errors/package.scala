package keystate

/** Every error that Keystate raises in the JVM: the catalogue of codes, and the exceptions by what
  * went wrong. They are made from strings and numbers, so that every other package can use them.
  * `Facts` reads the JSON files that Scala and Python share. Users catch
  * [[keystate.errors.KeystateException]]; the rest is not public.
  */
package object errors
