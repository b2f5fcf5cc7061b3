# Runs the Python code that comes on standard input, beside the module in $1. Where
# there is no Python it says $2.
if ! command -v python3 >/dev/null; then
	echo "$2" >&2
	exit 127
fi
umask 077
# Nobody knew its name before, so nobody can have put anything there.
dir=$(mktemp -d /tmp/.code-XXXXXXXXXX) || exit
trap 'rm -rf "$dir"' EXIT
trap : HUP INT TERM # the code gets them too, and what it has left is cleared away after it
printf '%s' "$1" >"$dir/osaurus_tools.py" && cat >"$dir/script.py" || exit
PYTHONPATH=$dir:$PWD PYTHONUNBUFFERED=1 python3 "$dir/script.py" </dev/null
