//go:build linux

package shell

import (
	_ "embed"
	"regexp"
	"strings"

	"osaurus-sandbox/internal/printable"
)

var (
	//go:embed bashrc
	bashrc string
	//go:embed bashprofile
	bashprofile string
	//go:embed shrc
	shrc string
	//go:embed shprofile
	shprofile string
	//go:embed shrun
	shrun string
	//go:embed shend
	shend string
)

// kind is a shell that sessions can have.
type kind struct {
	args    func(dir string) []string
	env     func(dir string) []string
	files   func(dir string, exports []string, profile bool) map[string]string
	trigger func(dir string) string // what makes it run what lies in its folder
	anew    string                  // what makes it show a new prompt after it has said that it is stale
	// editing says that it edits lines itself: then a terminal in any other
	// mode shows that it is not at its prompt.
	editing bool
}

// bash runs a call when a key is pressed that no keyboard sends by itself
// (Ctrl-^), wherever in a line its reader is: nothing is typed, echoed or kept in
// the history.
var bash = kind{
	args: func(dir string) []string { return []string{"bash", "--rcfile", dir + "/rc", "-i"} },
	env:  func(string) []string { return nil },
	files: func(dir string, exports []string, profile bool) map[string]string {
		return map[string]string{"rc": fill(bashrc, dir, bashprofile, exports, profile)}
	},
	trigger: func(string) string { return "\x1e" },
	anew:    "\x18\x1e",
	editing: true,
}

// posix is for rooms without bash, and serves less: what a person has half typed is
// lost to a call, whose line is seen and kept in the history; $? of the command
// before is not there; aliases and functions named like builtins can break it.
var posix = kind{
	args: func(string) []string { return []string{"/bin/sh", "-i"} },
	env:  func(dir string) []string { return []string{"ENV=" + dir + "/rc"} },
	files: func(dir string, exports []string, profile bool) map[string]string {
		return map[string]string{
			"rc":  fill(shrc, dir, shprofile, exports, profile),
			"run": fill(shrun, dir, "", nil, false),
			"end": fill(shend, dir, "", nil, false),
		}
	},
	// Ctrl-U first: what is half typed would become a part of the line.
	trigger: func(dir string) string { return "\x15 . " + dir + "/run; . " + dir + "/end\r" },
}

// fill makes a script of a template. The folder's path has no quotes in it.
func fill(script, dir, profile string, exports []string, withProfile bool) string {
	if !withProfile {
		profile = ""
	}
	return strings.NewReplacer("@DIR@", dir, "@PROFILE@\n", profile, "@EXPORTS@\n", strings.Join(assignments(exports), "")).Replace(script)
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// assignments repeat variables after the profile, which may have set some of them
// otherwise. What no shell could name stays in the environment alone.
func assignments(env []string) []string {
	var lines []string
	for _, e := range env {
		if name, value, ok := strings.Cut(e, "="); ok && identifier.MatchString(name) {
			lines = append(lines, "export "+name+"="+printable.Quote(value)+"\n")
		}
	}
	return lines
}
