#!/usr/bin/env bash
# Runs the tests of the web page in a real Chromium, and those of the container
# level with a container engine of their own, and agent programs against the real ones.
# What is not there is installed if
# that is allowed; else the tests are skipped and say so.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v chromium chromium-browser google-chrome chrome >/dev/null; then
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		echo "e2e: installing chromium"
		if ! (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core) >/dev/null; then
			echo "e2e: chromium could not be installed; what needs it is skipped" >&2
		fi
	else
		echo "e2e: there is no chromium and this is no root shell with apt-get; what needs it is skipped" >&2
	fi
fi
# A machine of its own for a sub-agent: systemd-nspawn boots a small Debian, which
# is made once and kept in /var/cache/iris-e2e.
if ! command -v systemd-nspawn >/dev/null || ! command -v debootstrap >/dev/null; then
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		echo "e2e: installing systemd-container and debootstrap"
		if ! (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends systemd-container debootstrap) >/dev/null; then
			echo "e2e: they could not be installed; the machine of its own is skipped" >&2
		fi
	fi
fi
command -v node >/dev/null || echo "e2e: there is no node; the page's reducer is not tested on its own"
# A kernel and QEMU for the microVM, by interpretation: KVM is not asked for. The
# kernel is unpacked and not installed, once.
kernel=/var/cache/iris-e2e/kernel
if [ -n "${IRIS_TEST_KERNEL:-}" ]; then
	:
elif [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "e2e: this is no root shell with apt-get; the microVM has no kernel and is skipped"
elif { command -v qemu-system-x86_64 && command -v busybox && command -v bash-static && command -v mke2fs; } >/dev/null && ls "$kernel"/boot/vmlinuz* >/dev/null 2>&1; then
	export IRIS_TEST_KERNEL=$kernel
elif (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends qemu-system-x86 busybox-static bash-static e2fsprogs &&
	mkdir -p "$kernel" && cd "$kernel" && apt-get download -qq "$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends/ {print $2; exit}')" &&
	dpkg -x ./*.deb . && rm -f ./*.deb) >/dev/null 2>&1; then
	export IRIS_TEST_KERNEL=$kernel
else
	echo "e2e: QEMU or a kernel could not be had; the microVM is skipped" >&2
fi
# Claude Code, Copilot, Pi and an ACP adapter, from the npm registry.
IRIS_TEST_CLIS=$(./scripts/clis.sh)
export IRIS_TEST_CLIS
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
status=0
# Arguments choose among the tests of the page; the walls and the agent programs run
# without. The programs mostly wait for each other, so they run beside the page.
programs=
if [ $# -eq 0 ]; then
	go test -tags e2e -count=1 -timeout 20m -p 1 -v ./internal/runner/agentcli/... >"$dir/3" 2>&1 &
	programs=$!
fi
go test -tags e2e -count=1 -timeout 20m -v "$@" ./internal/app/e2e/... >"$dir/1" 2>&1 || status=$?
if [ $# -eq 0 ]; then
	{
		./scripts/dockerd.sh go test -count=1 -timeout 15m -v ./internal/sandbox/docker || status=$?
		go test -tags e2e -count=1 -timeout 15m -v -run 'TestMicroVM$' ./internal/sandbox/firecracker || status=$?
	} >"$dir/2" 2>&1
	wait "$programs" || status=$?
fi
cat "$dir"/? >"$dir/all"
grep -E '^(=== RUN|=== PAUSE|=== CONT)' -v "$dir/all" || true
if grep -q -- '--- SKIP' "$dir/all"; then
	echo "e2e: skipped:"
	grep -A1 -- '--- SKIP' "$dir/all"
fi
exit "$status"
