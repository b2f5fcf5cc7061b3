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

// kind is a kind of shell.
type kind struct {
	args    func(dir string) []string
	env     func(dir string) []string
	files   func(dir string, exports []string, profile bool) map[string]string
	trigger func(dir string) string // keys that make it run the spooled call
	anew    string                  // keys that make it print a new prompt
	// editing is true if it has a line editor, whose terminal modes show that it is at its prompt.
	editing bool
}

// bash runs a call on Ctrl-^, at any point of a line. Nothing is echoed or added to the history.
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

// posix is for rooms without bash. Its limits: a call discards a half-typed line, shows up in the
// history and does not see the previous $?; aliases and functions named like builtins can break
// it.
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
	// Ctrl-U first, to discard a half-typed line.
	trigger: func(dir string) string { return "\x15 . " + dir + "/run; . " + dir + "/end\r" },
}

// fill fills in a script template. The folder's path must not contain quotes.
func fill(script, dir, profile string, exports []string, withProfile bool) string {
	if !withProfile {
		profile = ""
	}
	return strings.NewReplacer("@DIR@", dir, "@PROFILE@\n", profile, "@EXPORTS@\n", strings.Join(assignments(exports), "")).Replace(script)
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// assignments sets variables again after the profile, which may have changed them. It skips names
// that a shell cannot assign.
func assignments(env []string) []string {
	var lines []string
	for _, e := range env {
		if name, value, ok := strings.Cut(e, "="); ok && identifier.MatchString(name) {
			lines = append(lines, "export "+name+"="+printable.Quote(value)+"\n")
		}
	}
	return lines
}
