// Package copyfiles streams files into and out of rooms as tar archives. The guest end is a shell script.
package copyfiles

// The layout of an archive for a room: the copied files are in a folder, followed by a marker
// file. Without the marker, tar would accept an archive that is cut off between two entries.
const (
	folder = "files/"
	whole  = "whole"
)

// Exit codes of the scripts themselves, as opposed to those of the programs they run.
const (
	ExitNotFound = 7 // the file does not exist
	ExitRefused  = 3 // a file and a folder cannot replace each other
)

// OutScript archives $1 from its working directory.
const OutScript = `test -e "$1" || test -L "$1" || exit 7
exec tar -cf - "$1"`

// InScript unpacks an archive of the file or folder $2 to the absolute path $1, following the rules
// of CopyIn in the API. It unpacks into a temporary folder and moves each file once the archive is
// complete. New folders keep their permissions. The cleanup trap is set before the folder is
// created and cannot be interrupted, because a copy may be cancelled at any time. What a crash has
// left is removed by a copy a day later.
const InScript = `set -eu
to=$1 name=$2
if test -d "$to"; then
	folder=${to%/}/ as=$name
else
	case $to in */) exit 7 ;; esac
	folder=${to%/*}/ as=${to##*/}
fi
test -d "$folder" || exit 7
find "$folder" -maxdepth 1 -type d -name '.osaurus-copy-??????' -mmin +1440 -exec rm -rf {} + 2>/dev/null || :
part=$(mktemp -u "${folder}.osaurus-copy-XXXXXX")
trap 'trap "" HUP INT TERM; rm -rf "$part"' EXIT
trap 'exit 1' HUP INT TERM
mkdir -m 700 "$part"
tar -xf - -C "$part"
if ! test -f "$part/whole"; then
	echo "the copy was cut off" >&2
	exit 1
fi
from=$part/files/$name to=$folder$as
if ! test -d "$from" || test -L "$from"; then
	! test -d "$to" || exit 3
	mv -f "$from" "$to"
	exit
fi
if ! test -e "$to" && ! test -L "$to"; then
	mv "$from" "$to"
	exit
fi
test -d "$to" || exit 3
cd "$from"
find . -type d -exec sh -c 'for f; do
	test -d "$0/$f" || mkdir -m "$(stat -c %a "$f")" "$0/$f" || exit 1
done' "$to" {} +
find . ! -type d -exec sh -c 'for f; do
	if test -d "$0/$f"; then
		echo "$f: there is a folder" >&2
		exit 1
	fi
	mv -f "$f" "$0/$f" || exit 1
done' "$to" {} +
`
