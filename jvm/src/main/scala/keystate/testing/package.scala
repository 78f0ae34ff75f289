package keystate

/** Runs functions in tests without a query: clocks stand still until the test moves them. Public
  * API.
  */
package object testing
