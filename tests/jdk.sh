#!/bin/sh
# Prints the folder of the JDK with a number such as 25; fails if there is none. GitHub's machines name
# it by JAVA_HOME_25_X64 or the same for ARM64, Linux has it in /usr/lib/jvm, and macOS can be asked.
set -u
for architecture in X64 ARM64 arm64; do
  eval "home=\${JAVA_HOME_$1_$architecture:-}"
  [ -z "$home" ] || break
done
[ -n "$home" ] || home=$(ls -d /usr/lib/jvm/*-"$1"-* 2> /dev/null | head -n 1)
[ -n "$home" ] || home=$(/usr/libexec/java_home -F -v "$1" 2> /dev/null)
[ -x "$home/bin/java" ] && echo "$home"
