#!/usr/bin/env bash
# Fetches the page's libraries from the npm registry and lays them down as they
# are, without their source maps. Run it to change a version; the files are in
# the tree, so nobody needs it to build.
set -euo pipefail
cd "$(dirname "$0")/.."
out=internal/transport/web/page/vendor
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
take() { # package@version file name
	local dir="$tmp/${1//[@\/]/_}"
	mkdir -p "$dir"
	(cd "$dir" && npm pack --silent "$1" | xargs tar xzf)
	sed '/^\/\/# sourceMappingURL=/d' "$dir/package/$2" >"$out/$3"
	cp "$dir/package/LICENSE" "$out/${3%.mjs}.LICENSE"
}
mkdir -p "$out"
take preact@11.2.0 dist/preact.mjs preact.mjs
take preact@11.2.0 hooks/dist/hooks.mjs preact-hooks.mjs
take htm@3.1.1 dist/htm.mjs htm.mjs
take marked@18.2.1 lib/marked.esm.js marked.mjs
take dompurify@3.5.0 dist/purify.es.mjs dompurify.mjs
