#!/bin/sh
# Says in one line what is missing, before anything long begins: needs.sh python | jdk.
# PYTHON is the Python to make environments with; javas and pythons are the supported versions.
set -u

fail() {
  echo "$1" >&2
  exit 1
}

listed() { # 17 21 25 -> 17, 21 or 25
  echo "$1" | sed -E 's/ /, /g; s/, ([^,]+)$/ or \1/'
}

python() {
  command -v "$PYTHON" > /dev/null || fail "There is no $PYTHON: install Python $(listed "$pythons") with its venv \
module (Debian, Ubuntu: apt install python3-venv), or name one: make $goals PYTHON=python3.12"
  found=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  case " $pythons " in
    *" $found "*) ;;
    *) fail "$PYTHON is Python $found: Spark $SPARK needs $(listed "$pythons"). Name one: make $goals PYTHON=python3.12" ;;
  esac
  "$PYTHON" -c 'import venv, ensurepip' 2> /dev/null || fail "$PYTHON has no venv module: install it (Debian, Ubuntu: \
apt install $(basename "$PYTHON")-venv)"
}

jdk() {
  install="install JDK $(listed "$javas") (Debian, Ubuntu: apt install openjdk-17-jdk-headless)"
  if [ -n "${JAVA_HOME:-}" ]; then
    java=$JAVA_HOME/bin/java
    [ -x "$java" ] || fail "JAVA_HOME is $JAVA_HOME, which has no bin/java: $install, or let JAVA_HOME name one"
  else
    java=$(command -v java) || fail "There is no Java: $install"
  fi
  # Java 8 calls itself 1.8.
  found=$("$java" -version 2>&1 | sed -nE 's/.* version "(1\.)?([0-9]+).*/\2/p' | head -n 1)
  case " $javas " in
    *" $found "*) ;;
    *) fail "$java is Java ${found:-unknown}: $install, and let JAVA_HOME be its folder" ;;
  esac
  real=$(readlink -f "$java" 2> /dev/null || echo "$java")
  [ -x "${real%java}javac" ] || command -v javac > /dev/null ||
    fail "$java is a Java without a compiler (javac): $install"
  command -v sbt > /dev/null || command -v mvn > /dev/null ||
    fail "There is neither sbt nor Maven: install one of them (Debian, Ubuntu: apt install maven)"
}

"$1"
