package org.apache.spark.sql.keystate

/** What a driver or executor keeps of the last runs, operators and tasks, and no more. */
package object recent
