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
trap 'exit 143' HUP INT TERM # when the code has ended, which gets them too
printf '%s' "$1" >"$dir/osaurus_tools.py" && cat >"$dir/script.py" || exit
export PYTHONPATH="$dir:$PWD" PYTHONUNBUFFERED=1
exec 3>&2 2>/dev/null # how the code ends is the result, and nothing for the shell to write of
(exec python3 "$dir/script.py" </dev/null 2>&3 3>&-)
