#!/usr/bin/env bash
# Runs sbt in this repository: the installed one, or else sbt's launcher, which Maven gets.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

color=auto
[ -t 1 ] || color=false

# Two that start at once want the same socket, and the second one would end. One that ends after its commands needs none.
ends=false
[ $# -eq 0 ] || ends=true

if installed=$(type -P sbt) && ! [ "$installed" -ef sbt ]; then
  exec "$installed" -Dsbt.color=$color -Dsbt.server.forcestart=$ends "$@"
fi

version=$(sed -n 's/^sbt\.version=//p' project/build.properties)
launcher=project/target/sbt-launch-$version.jar
checksum=$(sed -n 's/^sbt\.launcher\.sha256=//p' project/build.properties)
if ! [ -f "$launcher" ]; then
  mvn --batch-mode --quiet org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
    -Dartifact="org.scala-sbt:sbt-launch:$version" -DoutputDirectory=project/target >&2
fi
found=$( (sha256sum "$launcher" 2> /dev/null || shasum -a 256 "$launcher") | cut -d ' ' -f 1)
if [ "$found" != "$checksum" ]; then
  echo "$launcher has the SHA-256 $found, not the one in $PWD/project/build.properties: delete it," \
    "or put the checksum of another version there" >&2
  exit 1
fi
# A JVM that ends after its commands compiles this project in half the CPU time if it optimizes nothing. In the cache
# for code that it would have then, there is not enough room for that.
options=(-Xmx3g -Xss4m)
[ $# -eq 0 ] || options+=(-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseParallelGC)
exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "${options[@]}" -Dsbt.color=$color -Dsbt.server.forcestart=$ends \
  -Dsbt.script="$PWD/sbt" -jar "$launcher" "$@"
