package packages

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// Manager is a program that installs packages.
type Manager string

// The managers. The first two install for the whole room and work as its root, the
// others for the agent.
const (
	APK Manager = "apk"
	APT Manager = "apt"
	Pip Manager = "pip"
	NPM Manager = "npm"
)

// System reports whether a manager works as root of the room.
func (m Manager) System() bool { return m == APK || m == APT }

// lockTime is how long the managers that have a lock wait for it, in seconds: for
// the end of one that was ended, or for a person who installs as well.
const lockTime = "20"

// Venv is where an agent's Python packages are, and Workspace its Node packages.
func Venv(home string) string      { return path.Join(home, ".venv") }
func Workspace(home string) string { return path.Join(home, ".osaurus/node_workspace") }

// Install is what installs packages for the agent of a home. No shell reads it.
func (m Manager) Install(home string, specs []Spec) []string {
	args := map[Manager][]string{
		APK: {"apk", "add", "--no-cache", "--no-progress", "--wait", lockTime, "--"},
		APT: aptGet("install", "--no-install-recommends", "--"),
		Pip: {Venv(home) + "/bin/python3", "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar", "off", "--"},
		NPM: npm(home, "install", "--no-audit", "--no-fund", "--no-progress", "--prefix", Workspace(home), "--"),
	}[m]
	for _, s := range specs {
		args = append(args, string(s))
	}
	return args
}

// aptGet asks no questions, and does not believe that a person sees its output.
func aptGet(args ...string) []string {
	return append([]string{"apt-get", "--yes", "--quiet", "-o", "DPkg::Lock::Timeout=" + lockTime, "-o", "Dpkg::Use-Pty=0"}, args...)
}

// npm keeps its downloads where a home is fast: on the guest's own disk.
func npm(home string, args ...string) []string {
	return append([]string{"npm", "--no-update-notifier", "--cache", home + "/.cache/npm"}, args...)
}

// Refresh is what has a manager learn what there is to install; nil, where that
// is a part of every install.
func (m Manager) Refresh() []string {
	if m == APT {
		return aptGet("update")
	}
	return nil
}

// Make is what makes the place where a manager installs, if that is not there; nil,
// where there is nothing to make.
func (m Manager) Make(home string) []string {
	if m == Pip {
		// What an attempt that was ended has left there is in the way.
		return []string{"python3", "-m", "venv", "--clear", Venv(home)}
	}
	return nil
}

// Mend is what clears away that for which an attempt failed; nothing, where another
// attempt is all that can be done.
func (m Manager) Mend(c Class, home string) [][]string {
	switch {
	case m == APK && c == Broken:
		return [][]string{{"apk", "fix", "--no-cache", "--no-progress", "--wait", lockTime}}
	case m == APT && c == Broken:
		return [][]string{{"dpkg", "--configure", "--pending"}, aptGet("--fix-broken", "install")}
	case m == Pip && c == Broken:
		return [][]string{m.Make(home)}
	case m == Pip:
		return [][]string{{Venv(home) + "/bin/python3", "-m", "pip", "cache", "purge", "--disable-pip-version-check"}}
	case m == NPM:
		w := Workspace(home)
		return [][]string{
			// Folders half renamed, which an install that was ended leaves.
			{"find", w, "-mindepth", "2", "-maxdepth", "3", "-type", "d", "-path", "*/node_modules/*", "-name", ".*-????????", "-prune", "-exec", "rm", "-rf", "{}", "+"},
			{"rm", "-rf", w + "/node_modules/.package-lock.json", w + "/.package-lock.json"},
			npm(home, "cache", "clean", "--force"),
		}
	}
	return nil
}

// Ledger is what tells which packages there are; nil for managers that leave
// nothing behind where they fail.
func (m Manager) Ledger() []string {
	switch m {
	case APK:
		return []string{"cat", "/etc/apk/world"}
	case APT:
		return []string{"dpkg-query", "--show", "--showformat=${binary:Package} ${db:Status-Status}\n"}
	}
	return nil
}

// Undo is what takes away what came between two readings of the ledger, so that it
// does not stand in the way of every later install.
func (m Manager) Undo(before, after string) [][]string {
	was, is := m.entries(before), m.entries(after)
	var added, changed []string
	for name, entry := range is {
		if old, there := was[name]; !there {
			added = append(added, name)
		} else if m == APK && old != entry {
			changed = append(changed, old)
		}
	}
	slices.Sort(added)
	slices.Sort(changed)
	var undo [][]string
	if len(added) > 0 {
		undo = append(undo, append(map[Manager][]string{
			APK: {"apk", "del", "--no-progress", "--wait", lockTime, "--"},
			APT: {"dpkg", "--purge", "--force-remove-reinstreq", "--"},
		}[m], added...))
	}
	if len(changed) > 0 {
		undo = append(undo, append([]string{"apk", "add", "--no-cache", "--no-progress", "--wait", lockTime, "--"}, changed...))
	}
	return undo
}

// entries are the lines of a ledger by their package. It was written by the
// guest: what is no package is none.
func (m Manager) entries(ledger string) map[string]string {
	list := map[string]string{}
	for line := range strings.Lines(ledger) {
		entry, state, _ := strings.Cut(strings.TrimSpace(line), " ")
		if _, err := Parse(m, entry); err != nil || slices.Contains([]string{"config-files", "not-installed"}, state) {
			continue
		}
		name := entry
		if m == APK {
			name = entry[:cmp.Or(strings.IndexAny(entry, "<>=~@")+1, len(entry)+1)-1]
		}
		list[name] = entry
	}
	return list
}
