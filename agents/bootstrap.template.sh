#!/bin/sh
# Starts @__NAME__ in a container and registers it. Fill in both placeholders in
# one go:
#
#   port=$(agents/lib/register-bridge.sh next-port)
#   sed "s/__NAME__/$name/g; s/__PORT__/$port/g" agents/bootstrap.template.sh >agents/$name/bootstrap.sh
#
# iris agent spawn --mode docker does the same and holds the lock between the two.
set -eu
name=__NAME__
port=__PORT__
api=$((port + 100))
dir=${IRIS_DIR:-/iris}
home=$dir/agents/$name
umask 077
mkdir -p "$home/data/events" "$home/data/skills" "$home/events" "$home/credentials"
[ -s "$home/credentials/IRIS_API_TOKEN" ] || od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >"$home/credentials/IRIS_API_TOKEN"
cp "$home/credentials/IRIS_API_TOKEN" "$home/credentials/IRIS_BRIDGE_TOKEN"
cp "$home/credentials/IRIS_API_TOKEN" "$home/credentials/IRIS_SECRET_BROKER_TOKEN"
[ "$(id -u)" != 0 ] || chown -R 65532:65532 "$home/data" "$home/events" "$home/credentials"

docker network inspect iris-internal >/dev/null 2>&1 || docker network create iris-internal >/dev/null
docker rm -f "iris-$name" >/dev/null 2>&1 || true
# The chat tokens are set and empty: what is not set could come from elsewhere.
docker run -d --name "iris-$name" --label "iris.agent=$name" \
	--network iris-internal --add-host iris-host:host-gateway --restart unless-stopped \
	--read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges --user 65532:65532 \
	-p "127.0.0.1:$port:$port" -p "127.0.0.1:$api:$api" \
	-e AGENT_NAME="$name" -e IRIS_ENV=prod -e IRIS_KEY_VAULT="${IRIS_KEY_VAULT:-}" \
	-e IRIS_BRIDGE_PORT="$port" -e IRIS_BRIDGE_HOST=0.0.0.0 -e IRIS_API_PORT="$api" -e IRIS_API_HOST=0.0.0.0 \
	-e IRIS_API_URL="${IRIS_PARENT_URL:-http://172.18.0.1:3000}" -e IRIS_SECRET_BROKER_URL="${IRIS_PARENT_URL:-http://172.18.0.1:3000}" \
	-e IRIS_EVENTS_DIR=/events -e CREDENTIALS_DIRECTORY=/run/credentials/iris -e HOME=/workspace \
	-e IRIS_SLACK_APP_TOKEN= -e IRIS_SLACK_BOT_TOKEN= -e TELEGRAM_BOT_TOKEN= \
	-v "$home/data:/workspace" -v "$home/events:/events" -v "$home/credentials:/run/credentials/iris:ro" \
	"${IRIS_IMAGE:-iris-runtime:local}" serve --sandbox=host /workspace >/dev/null

here=$(cd "$(dirname "$0")" && pwd)
lib=${IRIS_REPO_DIR:-$here/../..}/agents/lib/register-bridge.sh
"$lib" register "$name" "http://127.0.0.1:$port" "${AGENT_DESCRIPTION:-}" "$(cat "$home/credentials/IRIS_API_TOKEN")" "${AGENT_SECRETS:-}"
