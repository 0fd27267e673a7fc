#!/usr/bin/env bash
# Measures Iris from outside with the driver in bench/, and the driver's own stub
# beside it, which shows the floor of this machine at this hour. Prints the
# table; the reports stay in dist/. The first argument is the number of runs.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-5}
scenarios=${SCENARIOS:-coldstart,bridge,paced,keys,burst,recover,sessions,create,growth,watchers,tools,faults,crash}
dist=$PWD/dist
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$dist"

CGO_ENABLED=0 go build -buildvcs=auto -ldflags='-s -w' -o "$tmp/iris" ./cmd/iris
(cd bench && go build -o "$tmp/irisbench" ./cmd/irisbench && go build -o "$tmp/stub" ./cmd/stub)

sed "s|\"../bin/iris\"|\"$tmp/iris\"|" bench/iris.json >"$tmp/iris.json"
grep -q "$tmp/iris" "$tmp/iris.json" || { echo "bench: bench/iris.json does not begin with ../bin/iris" >&2; exit 1; }
cat >"$tmp/stub.json" <<EOF
{
  "name": "stub",
  "cmd": ["$tmp/stub", "127.0.0.1:{api_port}", "{llm}"],
  "api": "http://127.0.0.1:{api_port}",
  "bridge": "http://127.0.0.1:{api_port}",
  "health": "http://127.0.0.1:{api_port}/health",
  "watch": "http://127.0.0.1:{api_port}/sessions/{session}/stream"
}
EOF

echo "# $(date -u +%Y-%m-%d) $(git rev-parse --short HEAD) $(go env GOVERSION), $(uname -sr), $(nproc) processors ($(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)), load $(cut -d' ' -f1 /proc/loadavg)"
echo "# binary: $(stat -c %s "$tmp/iris") bytes; scenarios: $scenarios"
for target in stub iris; do
	"$tmp/irisbench" run -target "$tmp/$target.json" -only "$scenarios" -runs "$runs" -out "$dist/bench-$target.json" >"$tmp/$target.table"
done
"$tmp/irisbench" table "$dist/bench-stub.json" "$dist/bench-iris.json"
