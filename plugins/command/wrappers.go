package command

import (
	"slices"
	"strings"
)

// wrapping is what a wrapper has before the program that it runs: one-letter options with a value and without, and
// how many words that are none. After an option that is not here nobody knows which word is the program.
func wrapping(wrapper string) (valued, flags string, words int) {
	switch wrapper {
	case "env":
		return "uC", "i0v", 0
	case "timeout":
		return "ks", "v", 1
	case "nice":
		return "n", "", 0
	case "ionice":
		return "cn", "t", 0
	case "stdbuf":
		return "ioe", "", 0
	case "sudo":
		return "ugCDpRrtTU", "AbEHnPSk", 0
	case "doas":
		return "u", "n", 0
	case "exec":
		return "a", "cl", 0
	case "command":
		return "", "pvV", 0
	case "time":
		return "of", "apv", 0
	case "setsid":
		return "", "cfw", 0
	case "xargs":
		return "adEILnPs", "0rtpx", 0
	case "parallel":
		return "jN", "k0", 0
	case "strace":
		return "eo", "f", 0
	case "watch":
		return "n", "dtbegx", 0
	case "flock":
		return "wE", "nxseuoF", 1
	case "chroot":
		return "", "", 1
	case "unshare":
		return "", "rnmupiUCTfc", 0
	case "npx":
		return "", "y", 0
	}
	return "", "", 0
}

// longFlags are options of wrappers that take no value.
func longFlags() []string {
	return []string{"--foreground", "--preserve-status", "--verbose", "--ignore-environment", "--null", "--no-run-if-empty", "--preserve-env", "--non-interactive", "--yes"}
}

// wrapper reads what a wrapper runs.
func (r *reader) wrapper(name string, args, stdin []string) {
	switch name {
	case "find":
		r.find(args)
		return
	case "watch", "parallel", "script", "flock": // they have a shell run texts
		for _, arg := range args {
			if strings.ContainsAny(arg, " \t\n") {
				r.nest(arg)
			}
		}
	}
	if name == "parallel" || name == "xargs" && len(args) > 0 {
		args = append(slices.Clone(args), unknownText)
	}
	_, _, words := wrapping(name)
	options := true
	var values []string // of variables
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case strings.ContainsRune(arg, unknown) && !assignText.MatchString(arg):
			r.unclear("which program runs is known only then")
			return
		case arg == "--":
			options = false
		case options && strings.HasPrefix(arg, "-"):
			known, value := r.wrapperOption(name, arg)
			if !known {
				r.anywhere(args[i+1:], stdin)
				return
			}
			if value {
				if i++; i < len(args) && strings.ContainsRune(args[i], unknown) {
					r.unclear("which program runs is known only then")
					return
				}
			}
		case assignText.MatchString(arg):
			values = append(values, r.assigned(arg))
		case words > 0:
			words--
		default:
			if formOf(base(arg)) == other {
				r.bares(values)
			}
			r.runs(args[i:], stdin)
			return
		}
	}
}

// wrapperOption reports whether an option of a wrapper is known, and whether the next word is its value.
func (r *reader) wrapperOption(wrapper, arg string) (known, value bool) {
	if strings.HasPrefix(arg, "--") {
		if wrapper == "env" && strings.HasPrefix(arg, "--s") {
			r.unclear("env takes a text apart")
		}
		return strings.Contains(arg, "=") || slices.Contains(longFlags(), arg), false
	}
	valued, flags, _ := wrapping(wrapper)
	for at, letter := range arg[1:] {
		switch {
		case strings.ContainsRune(valued, letter):
			return true, at+2 == len(arg)
		case wrapper == "env" && letter == 'S':
			r.unclear("env takes a text apart")
			return false, false
		case !strings.ContainsRune(flags, letter):
			return false, false
		}
	}
	return true, false
}

// runs reads a program that another runs. It reports whether there may be more of them.
func (r *reader) runs(argv, stdin []string) bool {
	if r.commands++; r.commands > maxCommands {
		r.unclear("commands are too deep in each other")
		return false
	}
	r.program(argv, stdin)
	return true
}

// anywhere reads words of which any may be the program that runs: each that is one is read as it, and words that look
// as hosts do count.
func (r *reader) anywhere(args, stdin []string) {
	r.bares(args)
	for i, arg := range args {
		switch form := formOf(base(arg)); {
		case assignText.MatchString(arg):
			r.assigned(arg)
		case strings.ContainsRune(arg, unknown):
			r.unclear("which program runs is known only then")
			return
		case form == other, form == quiet, arg == ".": // the folder
		case !r.runs(args[i:], stdin):
			return
		}
	}
}

// find reads the commands of find, each of which ends with a word of its own. Names of programs elsewhere are those
// of files.
func (r *reader) find(args []string) {
	for i := 0; i < len(args); i++ {
		if !slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir"}, args[i]) {
			r.bare(args[i])
			continue
		}
		from := i + 1
		for i++; i < len(args) && args[i] != ";" && (args[i] != "+" || args[i-1] != "{}"); i++ {
		}
		if from < i && !r.runs(args[from:i], nil) {
			return
		}
	}
}

// assigned reads what a wrapper puts into the environment of what it runs, and is the value of that.
func (r *reader) assigned(arg string) string {
	name, value, _ := strings.Cut(arg, "=")
	r.variable(name, func() []string { return []string{value} })
	return value
}
