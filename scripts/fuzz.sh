#!/usr/bin/env bash
# Runs every fuzz test of the module for the given time each.
set -euo pipefail
cd "$(dirname "$0")/.."
each=${1:-30s}
grep -rlE '^func Fuzz' --include='*_test.go' cmd internal facilitate 2>/dev/null | xargs -r -n1 dirname | sort -u |
while read -r dir; do
	for name in $(grep -hoE '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | sed 's/func //'); do
		echo "== ./$dir $name $each"
		go test -run '^$' -fuzz "^$name\$" -fuzztime "$each" "./$dir"
	done
done
