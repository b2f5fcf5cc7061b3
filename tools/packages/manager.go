package packages

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// Manager is a package manager.
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

// lockTime is how many seconds apk and apt wait for their lock.
const lockTime = "20"

// Venv returns the folder of an agent's Python packages, Workspace that of its Node packages.
func Venv(home string) string      { return path.Join(home, ".venv") }
func Workspace(home string) string { return path.Join(home, ".osaurus/node_workspace") }

// Install returns the command that installs packages for the agent of a home.
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

// aptGet returns an apt-get command that asks no questions.
func aptGet(args ...string) []string {
	return append([]string{"apt-get", "--yes", "--quiet", "-o", "DPkg::Lock::Timeout=" + lockTime, "-o", "Dpkg::Use-Pty=0"}, args...)
}

// npm returns an npm command with its cache on the guest's own disk, which is fast.
func npm(home string, args ...string) []string {
	return append([]string{"npm", "--no-update-notifier", "--cache", home + "/.cache/npm"}, args...)
}

// Refresh returns the command that updates the package index, or nil if each install does that.
func (m Manager) Refresh() []string {
	if m == APT {
		return aptGet("update")
	}
	return nil
}

// Make returns the command that makes the folder for packages, or nil if there is none.
func (m Manager) Make(home string) []string {
	if m == Pip {
		// --clear removes what an interrupted attempt has left.
		return []string{"python3", "-m", "venv", "--clear", Venv(home)}
	}
	return nil
}

// Repair returns the commands that fix the cause of a failure, if there are any.
func (m Manager) Repair(c Class, home string) [][]string {
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
			// Half-renamed folders of an interrupted install.
			{"find", w, "-mindepth", "2", "-maxdepth", "3", "-type", "d", "-path", "*/node_modules/*", "-name", ".*-????????", "-prune", "-exec", "rm", "-rf", "{}", "+"},
			{"rm", "-rf", w + "/node_modules/.package-lock.json", w + "/.package-lock.json"},
			npm(home, "cache", "clean", "--force"),
		}
	}
	return nil
}

// ListInstalled returns the command that lists the installed packages, or nil if failures leave nothing behind.
func (m Manager) ListInstalled() []string {
	switch m {
	case APK:
		return []string{"cat", "/etc/apk/world"}
	case APT:
		return []string{"dpkg-query", "--show", "--showformat=${binary:Package} ${db:Status-Status}\n"}
	}
	return nil
}

// Undo returns the commands that remove what was added between two lists. Broken packages would
// block later installs.
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

// entries returns the lines of a list by package. It ignores invalid names, since the guest wrote it.
func (m Manager) entries(installed string) map[string]string {
	list := map[string]string{}
	for line := range strings.Lines(installed) {
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
