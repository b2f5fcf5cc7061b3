package enginetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// readOnlyFolder makes the folder that the tricks try to change.
const readOnlyFolder = `mkdir -p ws/folder ws/empty
echo old > ws/file
echo old > ws/folder/deep
ln ws/file ws/hard
ln -s file ws/link
ln -s folder ws/folderlink
printf '#!/bin/sh\necho changed > file\n' > ws/script
chmod 755 ws/script`

// readOnlyState prints the folder's state, change times included. GNU and busybox have
// stat -c, macOS has stat -f.
const readOnlyState = `cd ws
find . | sort | xargs stat -c '%N %f %h %u %g %s %y %z' 2> /dev/null || find . | sort | xargs stat -f '%N %Y %p %l %u %g %z %Fm %Fc'
find . -type f | sort | xargs cksum`

// readOnlyTrials are shell lines that try to change the folder, from inside it. $W is its path,
// $T a temporary folder.
var readOnlyTrials = map[string]string{
	"write":               `echo new > file`,
	"append":              `echo new >> file`,
	"overwrite in place":  `printf N 1<> file`,
	"truncate":            `: > file`,
	"create":              `echo new > other`,
	"create deep":         `echo new > folder/other`,
	"dd":                  `printf N | dd of=file conv=notrunc`,
	"tee":                 `echo new | tee file`,
	"edit":                `sed -i s/old/new/ file`,
	"remove":              `rm -f file`,
	"remove tree":         `rm -rf folder`,
	"remove folder":       `rmdir empty`,
	"make folder":         `mkdir other`,
	"make fifo":           `mkfifo fifo`,
	"make node":           `mknod node p`,
	"rename":              `mv file other`,
	"rename folder":       `mv folder other`,
	"rename over":         `mv script file`,
	"move out":            `mv file "$T/file"`,
	"move in":             `echo new > "$T/new"; mv "$T/new" file`,
	"copy over":           `echo new > "$T/new"; cp "$T/new" file`,
	"link":                `ln file other`,
	"link out and write":  `ln file "$T/hard" && echo new > "$T/hard"`,
	"link in":             `echo new > "$T/new"; ln -f "$T/new" file`,
	"symlink":             `ln -s file other`,
	"symlink over":        `ln -sf /etc/passwd link`,
	"write through link":  `echo new > link`,
	"through a folder's":  `echo new > folderlink/deep`,
	"through a hard link": `echo new > hard`,
	"through own symlink": `ln -s "$W/file" "$T/l"; echo new > "$T/l"`,
	"through own folder":  `ln -s "$W" "$T/d"; echo new > "$T/d/file"; rm "$T/d/hard"`,
	"through dots":        `echo new > "../ws/./folder/../file"`,
	"by absolute path":    `cd /; echo new > "$W/file"`,
	"through proc cwd":    `echo new > /proc/self/cwd/file`,
	"through proc root":   `echo new > "/proc/self/root$W/file"`,
	"reopen descriptor":   `exec 3< file; echo new > /proc/self/fd/3`,
	"reopen dev fd":       `exec 3< file; echo new > /dev/fd/3`,
	"folder descriptor":   `exec 3< .; echo new > /proc/self/fd/3/file`,
	"mode":                `chmod 777 file`,
	"mode of folder":      `chmod 777 folder`,
	"mode, then write":    `chmod -R 777 . ; echo new > file`,
	"mode through link":   `chmod 777 link`,
	"set user id":         `chmod u+s script`,
	"owner":               `chown "$(id -u)" file`,
	"group":               `chgrp "$(id -g)" file`,
	"time":                `touch file`,
	"time of the past":    `touch -t 200001010000 file`,
	"time of folder":      `touch folder`,
	"time of link":        `touch -h link`,
	"attribute":           `setfattr -n user.new -v new file`,
	"flag":                `chattr +d file`,
	"by its own script":   `./script`,
	"remount":             `mount -o remount,rw "$W"`,
	"bind mount":          `mount -o bind "$T" folder`,
	"own namespace":       `unshare -Urm sh -c 'mount -o remount,bind,rw "$W"; echo new > file'`,
	"own namespace, root": `unshare -Urm sh -c 'umount "$W"; echo new > file; chmod 777 file'`,
	"chroot":              `chroot / sh -c 'echo new > "$W/file"'`,
	"in the background":   `(setsid sh -c 'echo new > file; : > "$T/done"' &); for i in $(seq 600); do [ -e "$T/done" ] && break; sleep 0.1; done`,
}

func readOnlyTricks(ctx context.Context, t *trial) error {
	if _, err := t.output(ctx, t.line(readOnlyFolder)); err != nil {
		return err
	}
	before, err := t.output(ctx, t.line(readOnlyState))
	if err != nil {
		return err
	}
	// Try all of them in one command first, which is faster.
	after, err := t.tricked(ctx, strings.Join(slices.Sorted(maps.Values(readOnlyTrials)), "\n)\n(\n"))
	if err != nil || after == before {
		return err
	}
	for name, trick := range readOnlyTrials {
		before := after
		if after, err = t.tricked(ctx, trick); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if after != before {
			return fmt.Errorf("%s (%s) changes the workspace:\n%s", name, trick, difference(before, after))
		}
	}
	return fmt.Errorf("one of the tricks changes the workspace:\n%s", difference(before, after))
}

// tricked returns the folder's state after a trick. Tricks may fail, for example
// because a program is missing.
func (t *trial) tricked(ctx context.Context, trick string) (string, error) {
	req := t.line("T=$(mktemp -d); export T; (\n" + trick + "\n)")
	req.WorkspaceRoot += "/ws"
	req.Env = map[string]string{"W": req.WorkspaceRoot}
	req.ReadOnly = true
	if _, err := t.finish(ctx, req); err != nil {
		return "", err
	}
	return t.output(ctx, t.line(readOnlyState))
}

// difference returns the lines that are in only one of the texts.
func difference(before, after string) string {
	var b strings.Builder
	for _, line := range strings.Split(before, "\n") {
		if !strings.Contains(after, line) {
			b.WriteString("- " + line + "\n")
		}
	}
	for _, line := range strings.Split(after, "\n") {
		if !strings.Contains(before, line) {
			b.WriteString("+ " + line + "\n")
		}
	}
	return b.String()
}

func readOnlyScratch(ctx context.Context, t *trial) error {
	req := t.line(`d=$(mktemp -d) && echo text > "$d/file" && cat "$d/file" && echo > /dev/null && rm -r "$d"`)
	req.ReadOnly = true
	return t.expect(ctx, req, 0, "text\n")
}
