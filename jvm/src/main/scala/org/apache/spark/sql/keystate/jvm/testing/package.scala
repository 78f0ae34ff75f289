package org.apache.spark.sql.keystate.jvm

/** An operator at work without a query, for tests of functions. */
package object testing
