package org.apache.spark.sql.keystate.jvm

import org.apache.spark.sql.Dataset

import keystate.MapStateDescriptor

/** A Dataset to be broadcast, and the states that are made of it. */
final case class BroadcastData(data: Dataset[_], descriptors: Seq[MapStateDescriptor[_, _]])
