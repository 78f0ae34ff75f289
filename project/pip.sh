#!/bin/sh
# Runs pip so that one sees what it does: by its progress bars in a terminal, else by what it fetches and builds.
set -u
[ ! -t 1 ] || exec "$@"
status=$(mktemp)
{ "$@" || echo $? > "$status"; } | grep -E '^(  Downloading|Collecting|Building|Installing|Successfully|ERROR|error)' |
  grep -v -E '^(Collecting .*from|  Downloading .*(kB|bytes|metadata)\b)' | cut -c 1-200
failed=$(cat "$status")
rm -f "$status"
exit "${failed:-0}"
