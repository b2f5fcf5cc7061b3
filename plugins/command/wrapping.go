package command

import (
	"math"
	"slices"
	"strings"
)

// wrapping is what a wrapper has before the program that it runs. After an option that is not here nobody knows which
// word is the program.
type wrapping struct {
	// options of one letter: without a value, with one, with one that is joined to them or none, and those whose value
	// a shell runs
	flags, valued, optional, scripts string
	// options of many letters, with spaces between them: the same
	longFlags, longValued, longScripts string

	words int  // how many words are no options
	shell bool // a shell runs all its words, with spaces between them
}

func wrappingOf(wrapper string) wrapping {
	switch wrapper {
	case "env":
		return wrapping{flags: "i0v", valued: "uC", scripts: "S", longFlags: "ignore-environment null debug", longValued: "unset chdir", longScripts: "split-string"}
	case "timeout":
		return wrapping{flags: "v", valued: "ks", longFlags: "foreground preserve-status verbose", longValued: "kill-after signal", words: 1}
	case "nice":
		return wrapping{flags: "0123456789", valued: "n", longValued: "adjustment"}
	case "ionice":
		return wrapping{flags: "t", valued: "cn", longFlags: "ignore", longValued: "class classdata"}
	case "stdbuf":
		return wrapping{valued: "ioe", longValued: "input output error"}
	case "sudo":
		return wrapping{flags: "AbEHnPSk", valued: "ugCDpRrtTU", longFlags: "askpass background preserve-env set-home non-interactive preserve-groups stdin reset-timestamp",
			longValued: "user group close-from chdir prompt chroot role type command-timeout other-user"}
	case "doas":
		return wrapping{flags: "n", valued: "u"}
	case "exec":
		return wrapping{flags: "cl", valued: "a"}
	case "command":
		return wrapping{flags: "pvV"}
	case "time":
		return wrapping{flags: "apv", valued: "of", longFlags: "append portability verbose", longValued: "output format"}
	case "setsid":
		return wrapping{flags: "cfw", longFlags: "ctty fork wait"}
	case "xargs":
		return wrapping{flags: "0rtpxo", valued: "adEILnPs", optional: "ile", longFlags: "null no-run-if-empty verbose interactive exit open-tty replace eof max-lines",
			longValued: "arg-file delimiter max-args max-procs max-chars"}
	case "strace":
		return wrapping{flags: "f", valued: "eo", longFlags: "follow-forks", longValued: "trace output"}
	case "watch":
		return wrapping{flags: "tbegxc", valued: "n", optional: "d", longFlags: "differences no-title beep errexit chgexit exec color", longValued: "interval", shell: true}
	case "flock":
		return wrapping{flags: "nxseuoF", valued: "wE", scripts: "c", longFlags: "nonblock nb exclusive shared unlock close no-fork verbose",
			longValued: "timeout wait conflict-exit-code", longScripts: "command", words: 1}
	case "script":
		return wrapping{flags: "aefq", scripts: "c", longFlags: "append return flush quiet", longScripts: "command", words: math.MaxInt} // a program stands behind --
	case "chroot":
		return wrapping{longFlags: "skip-chdir", longValued: "groups userspec", words: 1}
	case "unshare":
		return wrapping{flags: "rnmupiUCTfc", longFlags: "map-root-user map-current-user net mount uts pid ipc user cgroup time fork"}
	case "npx":
		return wrapping{flags: "y", scripts: "c", longFlags: "yes", longScripts: "call"}
	}
	return wrapping{}
}

// told is what a word that begins with a hyphen tells a wrapper.
type told int

const (
	unheard   told = iota // nobody knows
	alone                 // something that has no value
	withValue             // something, by its value
	runValue              // to have a shell run its value
)

// option is such a word.
type option struct {
	told
	name, value string
	next        bool // the value is the next word
}

func (w wrapping) option(arg string) option {
	if arg, long := strings.CutPrefix(arg, "--"); long {
		name, value, joined := strings.Cut(arg, "=")
		among := func(names string) bool { return slices.Contains(strings.Fields(names), name) }
		begins := func(whole string) bool { return strings.HasPrefix(whole, name) } // names may be cut short
		switch {
		case slices.ContainsFunc(strings.Fields(w.longScripts), begins) && !among(w.longFlags):
			return option{runValue, name, value, !joined}
		case joined:
			return option{withValue, name, value, false}
		case among(w.longFlags):
			return option{alone, name, "", false}
		case among(w.longValued):
			return option{withValue, name, "", true}
		}
		return option{name: name}
	}
	for at, letter := range arg[1:] {
		name, value := string(letter), arg[at+2:] // all that are known are one byte long
		switch {
		case strings.ContainsRune(w.scripts, letter):
			return option{runValue, name, value, value == ""}
		case strings.ContainsRune(w.valued, letter):
			return option{withValue, name, value, value == ""}
		case strings.ContainsRune(w.optional, letter):
			return option{withValue, name, value, false}
		case !strings.ContainsRune(w.flags, letter):
			return option{name: name}
		}
	}
	return option{told: alone}
}
