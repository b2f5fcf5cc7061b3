//go:build linux

package shell

import (
	_ "embed"
	"regexp"
	"slices"
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

// kind is a kind of shell. In its texts, @DIR@ stands for the spool's path in the room.
type kind struct {
	args    []string
	env     []string
	files   map[string]string
	profile string // reads the user's profile, in the file rc
	trigger string // keys that make it run the spooled call
	anew    string // keys that make it print a new prompt
	// editing is true if it has a line editor, whose terminal modes show that it is at its prompt.
	editing bool
}

// bash runs a call on Ctrl-^, at any point of a line. Nothing is echoed or added to the history.
var bash = kind{
	args:    []string{"bash", "--rcfile", "@DIR@/rc", "-i"},
	files:   map[string]string{"rc": bashrc},
	profile: bashprofile,
	trigger: "\x1e",
	anew:    "\x18\x1e",
	editing: true,
}

// posix is for rooms without bash. Its limits: a call discards a half-typed line, shows up in the
// history and does not see the previous $?; aliases and functions named like builtins can break
// it.
var posix = kind{
	args:    []string{"/bin/sh", "-i"},
	env:     []string{"ENV=@DIR@/rc"},
	files:   map[string]string{"rc": shrc, "run": shrun, "end": shend},
	profile: shprofile,
	trigger: "\x15 . @DIR@/run; . @DIR@/end\r", // Ctrl-U first, to discard a half-typed line
}

// in returns the kind's texts for a spool, whose path must not contain quotes.
func (k kind) in(dir string, exports []string, profile bool) kind {
	if !profile {
		k.profile = ""
	}
	texts := strings.NewReplacer("@DIR@", dir, "@PROFILE@\n", k.profile, "@EXPORTS@\n", strings.Join(assignments(exports), ""))
	files := map[string]string{}
	for name, text := range k.files {
		files[name] = texts.Replace(text)
	}
	k.files, k.trigger = files, texts.Replace(k.trigger)
	k.args, k.env = slices.Clone(k.args), slices.Clone(k.env)
	for _, list := range [][]string{k.args, k.env} {
		for i := range list {
			list[i] = texts.Replace(list[i])
		}
	}
	return k
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
