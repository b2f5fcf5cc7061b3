package install

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"path"
	"regexp"
	"strings"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/tools"
)

const (
	// folderName is the folder of plugins in an agent's home.
	folderName = "plugins"
	// LayerFile contains a random name for the layer of an agent's room. If the name has changed,
	// everything that was installed outside of the home is gone.
	LayerFile = "/var/lib/osaurus/layer"
	// scriptTime is enough to copy or remove a folder of many files on a share.
	scriptTime = 2 * time.Minute
)

// folderOf returns a plugin's folder in the guest.
func folderOf(a tools.Agent, plugin config.PluginID) string {
	return path.Join(a.Home, folderName, string(plugin))
}

// Scripts run in the agent's room as the agent, so they can harm nobody else. Names are passed
// as arguments.
const (
	// scriptMark writes the name $2 into the layer file $1, unless the layer has a name. It runs
	// as the room's root, so that the agent does not delete the file by mistake.
	scriptMark = `set -eu
if [ ! -s "$1" ]; then
	mkdir -p "${1%/*}"
	printf '%s\n' "$2" >"$1.new"
	mv -- "$1.new" "$1"
fi
cat -- "$1"
if command -v apk >/dev/null; then echo apk; elif command -v apt-get >/dev/null; then echo apt; else echo none; fi
`
	// scriptRemove defines a function that deletes files, also folders without write permission.
	scriptRemove = `set -eu
remove() {
	for f; do
		[ -L "$f" ] || chmod -R u+rwX -- "$f" 2>/dev/null || :
		rm -rf -- "$f"
	done
}
`
	// scriptTake makes a backup of the folder of plugin $2 in the home $1, and removes the files
	// named on standard input from it. If something else is in its place, even a link, it is moved
	// to the backup.
	scriptTake = scriptRemove + `umask 022
cd -- "$1"
if [ -L plugins ]; then
	echo "the folder plugins is a link: remove it" >&2
	exit 1
fi
mkdir -p plugins
cd plugins
remove ".$2.copy" ".$2.before" ".$2.none"
if [ -d "$2" ] && [ ! -L "$2" ]; then
	cp -a -- "$2" ".$2.copy"
	mv -- ".$2.copy" ".$2.before"
elif [ -e "$2" ] || [ -L "$2" ]; then
	mv -- "$2" ".$2.before"
	mkdir -- "$2"
else
	: >".$2.none"
	mkdir -- "$2"
fi
cd -- "$2"
xargs -0 -r rm -rf --
`
	// scriptGiveBack restores the backup. It is idempotent.
	scriptGiveBack = scriptRemove + `cd -- "$1/plugins" 2>/dev/null || exit 0
if [ -e ".$2.before" ] || [ -L ".$2.before" ]; then
	remove "$2"
	mv -- ".$2.before" "$2"
elif [ -e ".$2.none" ]; then
	remove "$2"
fi
remove ".$2.none" ".$2.copy"
`
	// scriptKeep deletes the backup.
	scriptKeep = scriptRemove + `cd -- "$1/plugins" 2>/dev/null || exit 0
remove ".$2.before" ".$2.none" ".$2.copy"
`
	// scriptClear removes the folder and the backup.
	scriptClear = scriptKeep + `remove "$2"
`
	// scriptLook prints the name in the layer file $1, which of the following $3 plugins have a
	// folder in the home $2, and which of the remaining arguments are installed packages.
	scriptLook = `layer=$1
home=$2
plugins=$3
shift 3
printf 'layer %s\n' "$(cat -- "$layer" 2>/dev/null)"
while [ "$plugins" -gt 0 ]; do
	[ -d "$home/plugins/$1" ] && [ ! -L "$home/plugins/$1" ] && printf 'folder %s\n' "$1"
	shift
	plugins=$((plugins - 1))
done
if [ $# -gt 0 ]; then
	if command -v apk >/dev/null; then
		apk info -e -- "$@" 2>/dev/null | sed 's/^/package /'
	elif command -v dpkg-query >/dev/null; then
		dpkg-query -W -f='${db:Status-Status} ${Package}\n' -- "$@" 2>/dev/null | sed -n 's/^installed /package /p'
	fi
fi
exit 0
`
)

// layerText matches the name of a layer.
var layerText = regexp.MustCompile(`^[0-9a-f]{32}$`)

func newLayer() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// script runs a script in an agent's room and returns its output.
func (i *Installer) script(ctx context.Context, op string, a tools.Agent, asRoot bool, text string, stdin string, args ...string) (string, error) {
	if err := i.checkBoot(ctx); err != nil {
		return "", err
	}
	var out, trouble bytes.Buffer
	p, err := i.Room(a).Exec(ctx, engine.Command{
		Args: append([]string{"/bin/sh", "-c", text, "plugin"}, args...), Dir: "/", RoomRoot: asRoot,
		Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &trouble, Timeout: scriptTime, MaxOutput: engine.MaxOutputLimit,
	})
	if err != nil {
		return "", err
	}
	exit, err := p.Wait()
	switch {
	case err != nil:
		return "", err
	case exit.TimedOut:
		return "", fault.Newf(fault.Timeout, op, string(a.Name), "it did not finish within %v", scriptTime)
	case exit.Quota:
		return "", fault.Newf(fault.Rejected, op, string(a.Name), "the agent's disk is full").Advise("Delete what it does not need, or raise its limits.diskMB or limits.homeMB.")
	case exit.Status() != 0:
		why := printable.First(strings.TrimSpace(trouble.String()), maxSetup)
		return "", fault.Newf(fault.Execution, op, string(a.Name), "exit code %d: %s", exit.Status(), why).
			Advise("See what is in the way in the agent's folder plugins: `osaurus-sandbox shell " + string(a.Name) + "`.")
	}
	return out.String(), nil
}
