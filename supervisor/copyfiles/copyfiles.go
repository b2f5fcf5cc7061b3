// Package copyfiles streams files into and out of rooms as tar archives. The guest end is a shell script.
package copyfiles

// How a parcel for a room is made: what it is about is in a folder, and after it comes a
// file that says that nothing is missing. An archive that is cut off between two entries
// looks whole to tar.
const (
	folder = "files/"
	whole  = "whole"
)

// The exit codes of scripts that are no failures of the programs that they run.
const (
	ExitNotFound = 7 // what is named is not there
	ExitRefused  = 3 // a file and a folder cannot take each other's place
)

// OutScript writes $1, which is in the folder that it runs in, as an archive.
const OutScript = `test -e "$1" || test -L "$1" || exit 7
exec tar -cf - "$1"`

// InScript unpacks a parcel with the one name $2 to $1, which is absolute, as CopyIn of the API has it: what is
// unpacked is in a folder of its own until it is whole, and then moved, each file at once. A
// folder that is new is as open to others as it was, and no more. What removes the first is set
// before that is made, and not interrupted: who copies may give up at any time. Where the machine
// ended in the middle it is left, without the lock that its maker holds as long as it lives, and the
// next copy into its folder removes it: not within its first minute, in which it may not be locked yet.
const InScript = `set -eu
to=$1 name=$2
if test -d "$to"; then
	folder=${to%/}/ as=$name
else
	case $to in */) exit 7 ;; esac
	folder=${to%/*}/ as=${to##*/}
fi
test -d "$folder" || exit 7
for old in "$folder".parcel-??????; do
	if test -d "$old" && ! test -L "$old" && test -n "$(find "$old" -prune -mmin +1)"; then
		flock -n "$old" rm -rf "$old" || :
	fi
done
part=$(mktemp -u "${folder}.parcel-XXXXXX")
trap 'trap "" HUP INT TERM; rm -rf "$part"' EXIT
trap 'exit 1' HUP INT TERM
mkdir -m 700 "$part"
exec 9<"$part"
flock 9 || : # without the program nothing that is left is removed either
tar -xf - -C "$part"
if ! test -f "$part/whole"; then
	echo "it has not arrived whole" >&2
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
