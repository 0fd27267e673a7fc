#!/usr/bin/env bash
# Takes the picture of the page for the README anew: docs/page.png. Needs
# chromium.
set -euo pipefail
cd "$(dirname "$0")/.."
go test -tags e2e -count=1 -run '^TestScreens$' ./internal/app/e2e -update
