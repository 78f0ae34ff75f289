#!/bin/sh
# Runs pip so that one sees what it does: by its progress bars in a terminal, else by what it fetches and builds. If it
# fails, all that it said comes last.
set -u
[ ! -t 1 ] || exec "$@"
said=$(mktemp -d)
trap 'rm -rf "$said"' EXIT
{ "$@" 2>&1 || echo $? > "$said/status"; } | tee "$said/log" |
  grep -E '^(  Downloading|Building|Installing|Successfully)' |
  grep -v -E '^  Downloading .*([0-9] ?kB|bytes|metadata)' | cut -c 1-200
[ ! -e "$said/status" ] || { tail -n 100 "$said/log" >&2 && exit "$(cat "$said/status")"; }
