#!/bin/sh
# A shim in the manner of those that others have written for this bridge: curl and
# jq, the older path of the socket, curl's own content type, and JSON put
# together without care.
user=$(id -un)
token=$(cat "/run/osaurus/$user.token") || exit 1
[ -n "$token" ] || { echo "no token" >&2; exit 1; }
plugin=${OSAURUS_PLUGIN:-$(basename "$(pwd)")}

ask() { # METHOD PATH [BODY]
	if [ -n "$3" ]; then set -- "$1" "$2" -d "$3"; fi
	method=$1 path=$2
	shift 2
	answer=$(curl -s -w '\n%{http_code}' --unix-socket /tmp/osaurus-bridge.sock -X "$method" \
		-H "Authorization: Bearer $token" -H "X-Osaurus-Plugin: $plugin" "$@" "http://localhost/api/$path") || { echo "the bridge does not answer" >&2; exit 1; }
	status=$(printf '%s' "$answer" | tail -n 1)
	body=$(printf '%s' "$answer" | sed '$d')
	if [ "$status" -ge 400 ]; then
		echo "$status $(printf '%s' "$body" | jq -r .error)" >&2
		exit 1
	fi
}

case "$1 $2" in
"secrets get") ask GET "secrets/$3" && printf '%s\n' "$body" | jq -r .value ;;
"config get") ask GET "config/$3" && printf '%s\n' "$body" | jq -r .value ;;
"config set") ask POST "config/$3" "{\"value\":\"$4\"}" ;;
"inference chat") ask POST inference/chat "{\"messages\":[{\"role\":\"user\",\"content\":\"$4\"}]}" && printf '%s\n' "$body" | jq -r .content ;;
"agent dispatch") ask POST agent/dispatch "{\"agent_id\":\"$3\",\"task\":\"$4\"}" && printf '%s\n' "$body" ;;
"agent memory")
	case $3 in
	query) ask POST agent/memory/query "{\"query\":\"$4\"}" ;;
	store) ask POST agent/memory/store "{\"content\":\"$4\"}" ;;
	esac
	printf '%s\n' "$body"
	;;
"events emit") ask POST events/emit "{\"type\":\"$3\",\"payload\":${4:-{\}}}" ;;
"plugin create") ask POST plugin/create "$(cat)" && printf '%s\n' "$body" ;;
"log "*) ask POST log "{\"level\":\"$2\",\"message\":\"$3\"}" ;;
*) exit 2 ;;
esac
