#!/usr/bin/env bash
# Installs the agent programs that the end-to-end tests drive, at fixed versions, into
# a prefix of their own, and prints its path. IRIS_TEST_CLIS names a prefix to use. They
# talk to a model API of the tests on loopback; none needs an account. Where npm is not
# there, or may not load them, it says so and the recordings stand in.
set -uo pipefail
prefix=${IRIS_TEST_CLIS:-${XDG_CACHE_HOME:-$HOME/.cache}/iris-e2e/clis}
programs=(
	"claude @anthropic-ai/claude-code@2.1.197"
	"claude-code-acp @zed-industries/claude-code-acp@0.16.2"
	"copilot @github/copilot@1.0.102"
	"gemini @google/gemini-cli@0.61.0"
	"pi @earendil-works/pi-coding-agent@0.74.2"
)
for entry in "${programs[@]}"; do
	name=${entry%% *} package=${entry#* }
	[ -e "$prefix/node_modules/.bin/$name" ] && continue
	if ! command -v npm >/dev/null; then
		echo "e2e: there is no npm; $name is not installed and its tests are skipped" >&2
		continue
	fi
	mkdir -p "$prefix"
	echo "e2e: installing $package" >&2
	if ! out=$(npm install --prefix "$prefix" --no-audit --no-fund --save-exact "$package" 2>&1); then
		echo "e2e: $package could not be installed, its tests are skipped: $(tail -n 1 <<<"$out")" >&2
	fi
done
echo "$prefix"
