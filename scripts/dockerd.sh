#!/usr/bin/env bash
# Starts a container engine of its own on a private socket, runs the given command
# with IRIS_TEST_DOCKER naming it, and ends the engine it started. Without the
# rights or the packages the command runs all the same and skips what needs it.
set -euo pipefail
if ! command -v dockerd >/dev/null || [ ! -x /usr/bin/busybox ] || [ ! -x /usr/bin/bash-static ]; then
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		echo "e2e: installing docker.io busybox-static bash-static"
		(apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker.io busybox-static bash-static) >/dev/null ||
			echo "e2e: docker.io could not be installed; the container level is not tested" >&2
	fi
fi
if [ "$(id -u)" != 0 ] || ! command -v dockerd >/dev/null; then
	echo "e2e: no dockerd that may be started; the container level is not tested" >&2
	exec "$@"
fi
dir=$(mktemp -d)
pid=
stop() {
	[ -z "$pid" ] || { kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true; }
	rm -rf "$dir" 2>/dev/null || true
}
trap stop EXIT
dockerd --storage-driver=vfs --iptables=false --ip6tables=false --bridge=none --log-level=error \
	--data-root="$dir/data" --exec-root="$dir/exec" --pidfile="$dir/pid" -H "unix://$dir/sock" >"$dir/log" 2>&1 &
pid=$!
for _ in $(seq 120); do
	if DOCKER_HOST="unix://$dir/sock" docker version >/dev/null 2>&1; then
		IRIS_TEST_DOCKER="unix://$dir/sock" "$@"
		exit
	fi
	kill -0 "$pid" 2>/dev/null || break
	sleep 0.5
done
echo "e2e: dockerd did not come up; the container level is not tested:" >&2
tail -5 "$dir/log" >&2
"$@"
