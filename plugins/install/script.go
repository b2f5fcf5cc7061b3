package install

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"path"
	"regexp"
	"strings"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
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
	// maxAnswer bounds a script's output: two lines for each plugin and one for each package.
	maxAnswer = 16 << 20
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
	// scriptTake makes a backup of the folder of plugin $2 in the home $1, and removes the files
	// named on standard input from it. If something else is in its place, even a link, it is moved
	// to the backup.
	scriptTake = `set -eu
umask 022
cd -- "$1"
if [ -L plugins ]; then
	echo "the folder plugins is a link: remove it" >&2
	exit 1
fi
mkdir -p plugins
cd plugins
chmod -R u+rwX -- ".$2.copy" ".$2.before" 2>/dev/null || :
rm -rf -- ".$2.copy" ".$2.before" ".$2.none"
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
	scriptGiveBack = `set -eu
cd -- "$1/plugins" 2>/dev/null || exit 0
if [ -e ".$2.before" ] || [ -L ".$2.before" ]; then
	[ -L "$2" ] || chmod -R u+rwX -- "$2" 2>/dev/null || :
	rm -rf -- "$2"
	mv -- ".$2.before" "$2"
elif [ -e ".$2.none" ]; then
	[ -L "$2" ] || chmod -R u+rwX -- "$2" 2>/dev/null || :
	rm -rf -- "$2"
fi
chmod -R u+rwX -- ".$2.copy" 2>/dev/null || :
rm -rf -- ".$2.none" ".$2.copy"
`
	// scriptKeep deletes the backup.
	scriptKeep = `cd -- "$1/plugins" 2>/dev/null || exit 0
chmod -R u+rwX -- ".$2.before" 2>/dev/null
rm -rf -- ".$2.before" ".$2.none" ".$2.copy"
`
	// scriptClear removes the folder and the backup.
	scriptClear = `set -eu
cd -- "$1/plugins" 2>/dev/null || exit 0
for f in "$2" ".$2.before" ".$2.none" ".$2.copy"; do
	[ -L "$f" ] || chmod -R u+rwX -- "$f" 2>/dev/null || :
	rm -rf -- "$f"
done
`
	// scriptLook prints the name in the layer file $1, which of the following $3 plugins have a
	// folder or a backup in the home $2, and which of the remaining arguments are installed packages.
	scriptLook = `layer=$1
home=$2
plugins=$3
shift 3
printf 'layer %s\n' "$(cat -- "$layer" 2>/dev/null)"
while [ "$plugins" -gt 0 ]; do
	[ -d "$home/plugins/$1" ] && [ ! -L "$home/plugins/$1" ] && printf 'folder %s\n' "$1"
	if [ -e "$home/plugins/.$1.before" ] || [ -L "$home/plugins/.$1.before" ] || [ -e "$home/plugins/.$1.none" ]; then printf 'left %s\n' "$1"; fi
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
func (i *Installer) script(ctx context.Context, op string, a tools.Agent, asRoot bool, text string, stdin io.Reader, args ...string) (string, error) {
	out, trouble := &bounded{left: maxAnswer}, &bounded{left: 4 << 10}
	if stdin == nil {
		stdin = strings.NewReader("")
	}
	if err := i.here(ctx); err != nil {
		return "", err
	}
	p, err := i.Rooms.Room(a).Exec(ctx, engine.Command{
		Args: append([]string{"/bin/sh", "-c", text, "plugin"}, args...), Dir: "/", RoomRoot: asRoot,
		Stdin: stdin, Stdout: out, Stderr: trouble, Timeout: scriptTime,
	})
	if err != nil {
		return "", err
	}
	exit, err := p.Wait()
	switch {
	case err != nil:
		return "", err
	case exit.TimedOut:
		return "", fault.Newf(fault.Timeout, op, string(a.Name), "it was not done after %v", scriptTime)
	case exit.Quota:
		return "", fault.Newf(fault.Rejected, op, string(a.Name), "the agent's disk is full").Advise("Delete what it does not need, or raise its limits.diskMB or limits.homeMB.")
	case exit.Status() != 0:
		why := strings.TrimSpace(strings.ToValidUTF8(trouble.String(), "\uFFFD"))
		return "", fault.Newf(fault.Execution, op, string(a.Name), "exit code %d: %s", exit.Status(), why).
			Advise("See what is in the way in the agent's folder plugins: `osaurus-sandbox shell " + string(a.Name) + "`.")
	}
	return out.String(), nil
}

// bounded is a buffer that fails when it is full, which ends the program that writes.
type bounded struct {
	bytes.Buffer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errors.New("it writes more than it may")
	}
	return b.Buffer.Write(p)
}

// list formats names for xargs -0.
func list[T ~string](names []T) io.Reader {
	var b strings.Builder
	for _, name := range names {
		b.WriteString(string(name))
		b.WriteByte(0)
	}
	return strings.NewReader(b.String())
}
