#!/usr/bin/env bash
# Installs what the tests run besides Go, where that is allowed: bash and git for
# commands, bubblewrap for their sandbox, node for the page's reducer. Go fetches
# its own modules.
set -euo pipefail
missing=()
for p in bash git node bwrap; do
	command -v "$p" >/dev/null || missing+=("$p")
done
[ ${#missing[@]} -gt 0 ] || exit 0
packages=("${missing[@]/#node/nodejs}")
packages=("${packages[@]/#bwrap/bubblewrap}")
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	echo "test: installing ${packages[*]}"
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null && exit 0
fi
echo "test: ${missing[*]} could not be installed; what needs them is skipped and says so" >&2
