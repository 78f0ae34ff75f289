package keystate

/** The arithmetic of key groups: which group a key is in, and which subtask owns a group. Pure
  * functions, a part of the file format. Not public.
  */
package object keygroup
