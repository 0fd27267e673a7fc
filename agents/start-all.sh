#!/bin/sh
# Starts every agent that has a bootstrap.sh. One that fails does not keep the
# others from starting; the exit code says that one did.
set -u
cd "$(dirname "$0")" || exit 1
docker network inspect iris-internal >/dev/null 2>&1 || docker network create iris-internal >/dev/null || exit 1
status=0
for script in */bootstrap.sh; do
	[ -f "$script" ] || continue
	sh "$script" || {
		echo "start-all: $script failed" >&2
		status=1
	}
done
exit "$status"
