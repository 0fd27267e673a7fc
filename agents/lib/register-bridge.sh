#!/bin/sh
# Registers sub-agents in agents.json. The work is done by the iris binary where
# there is one; else by flock, jq and this file, under the same lock.
#
#   has-pat                                    0 if there is a GitHub token
#   next-port [base]                           first port clear of every agent's
#   register name url description [token] [secrets,with,commas]
#   collect-secrets skill-dir...               what these skills need, with commas
#   check-secrets secrets,with,commas          warns of those that cannot be read
#
# IRIS_AGENTS_REGISTRY is the file (/iris/data/agents.json), IRIS_BIN the binary.
set -eu
umask 077
registry=${IRIS_AGENTS_REGISTRY:-/iris/data/agents.json}
iris=${IRIS_BIN-$(command -v iris || true)}

fail() {
	echo "register-bridge: $*" >&2
	exit 1
}

# has_secret tells whether a secret can be read; the value goes nowhere.
has_secret() { get-secret "$1" >/dev/null 2>&1 || return 1; }

has_pat() { [ -n "${GITHUB_TOKEN:-}" ] || has_secret GITHUB-TOKEN; }

need() {
	command -v flock >/dev/null && command -v jq >/dev/null || fail "there is no iris binary; without it flock and jq are needed"
}

# current prints the registry, {} if there is none, and refuses what is none.
current() {
	if [ ! -e "$registry" ]; then
		echo '{}'
		return
	fi
	jq -e 'if type == "object" then . else error("no object") end' "$registry" 2>/dev/null ||
		fail "$registry is not a registry of agents; it is left as it is"
}

# The API of an agent is 100 above its bridge, so both must be clear.
next_port() {
	base=${1:-4200}
	case $base in '' | *[!0-9]*) fail "$base is not a port" ;; esac
	if [ -n "$iris" ]; then
		exec "$iris" agent next-port --registry "$registry" "$base"
	fi
	need
	used=$(current | jq -r '.[] | objects | .bridge_url // empty | capture("^https?://[^/]*:(?<p>[0-9]+)") | .p') || exit 1
	port=$base
	while [ "$port" -le 65435 ]; do
		clear=1
		for u in $used; do
			case $((port - u)) in 0 | 100 | -100) clear= ;; esac
		done
		if [ -n "$clear" ]; then
			echo "$port"
			return
		fi
		port=$((port + 1))
	done
	fail "no free port from $base on"
}

register() {
	[ $# -ge 3 ] || fail "usage: register name url description [token] [secrets]"
	name=$1 url=$2 description=$3 token=${4:-} secrets=${5:-}
	if [ -n "$iris" ]; then
		set -- agent register --registry "$registry" --secrets "$secrets"
		if [ -n "$token" ]; then
			printf '%s\n' "$token" | "$iris" "$@" --token-stdin -- "$name" "$url" "$description"
		else
			"$iris" "$@" -- "$name" "$url" "$description"
		fi
		return
	fi
	need
	printf '%s' "$name" | grep -Eq '^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$' || fail "$name cannot be the name of an agent"
	if [ -e "$registry" ]; then
		registry=$(readlink -f "$registry")
	fi
	(
		flock 9
		old=$(current) || exit 1
		tmp=$(mktemp "$(dirname "$registry")/.agents-XXXXXX.json")
		trap 'rm -f "$tmp"' EXIT
		if [ -e "$registry" ]; then
			chmod --reference="$registry" "$tmp"
			[ "$(id -u)" != 0 ] || chown --reference="$registry" "$tmp"
		fi
		# Values go in through the environment: arguments can be seen.
		printf '%s' "$old" | A_URL=$url A_DESC=$description A_TOKEN=$token A_SECRETS=$secrets A_NAME=$name jq '
			.[env.A_NAME] = ((.[env.A_NAME] // {})
				+ {bridge_url: env.A_URL}
				+ (if env.A_DESC == "" then {} else {description: env.A_DESC} end)
				+ (if env.A_SECRETS == "" then {} else {secrets: (env.A_SECRETS | split(",") | map(select(. != "")))} end)
				+ (if env.A_TOKEN == "" then {} else {token: env.A_TOKEN} end))' >"$tmp"
		sync "$tmp" 2>/dev/null || sync
		mv "$tmp" "$registry"
		trap - EXIT
		sync "$(dirname "$registry")" 2>/dev/null || true
	) 9>>"$registry.lock"
	echo "registered @$name"
}

# collect_secrets reads "secrets: [A, B]" and the list with dashes.
collect_secrets() {
	for dir in "$@"; do
		[ -f "$dir/SKILL.md" ] || fail "$dir is no skill"
		awk '
			NR == 1 && /^---/ { front = 1; next }
			front && /^---/ { exit }
			front && /^secrets:/ { list = 1; sub(/^secrets:/, ""); gsub(/[][",'\'']/, " "); print; next }
			front && list && /^[ \t]*-/ { sub(/^[ \t]*-/, ""); gsub(/["'\'']/, ""); print; next }
			front { list = 0 }' "$dir/SKILL.md"
	done | tr -s ' \t' '\n' | grep -E '^[A-Za-z0-9_-]+$' | LC_ALL=C sort -u | paste -sd, - || true
}

check_secrets() {
	printf '%s\n' "${1:-}" | tr ',' '\n' | while read -r name; do
		[ -z "$name" ] || has_secret "$name" || echo "register-bridge: warning: the secret $name cannot be read" >&2
	done
}

command=${1:-}
[ $# -eq 0 ] || shift
case $command in
has-pat) has_pat ;;
next-port) next_port "$@" ;;
register) register "$@" ;;
collect-secrets) collect_secrets "$@" ;;
check-secrets) check_secrets "$@" ;;
*) fail "usage: has-pat | next-port [base] | register name url description [token] [secrets] | collect-secrets dir... | check-secrets names" ;;
esac
