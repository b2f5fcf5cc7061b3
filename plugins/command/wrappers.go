package command

import (
	"cmp"
	"slices"
	"strings"
)

// wrapper reads what a wrapper runs.
func (r *reader) wrapper(name string, args, stdin []string) {
	switch name {
	case "find":
		r.find(args)
		return
	case "parallel":
		r.unclear("parallel makes commands of what it is given")
		return
	}
	w := wrappingOf(name)
	words, options := w.words, true
	var mark string     // stands for what xargs reads
	var values []string // of variables
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case strings.ContainsRune(arg, unknown) && !assignText.MatchString(arg):
			r.unclear(programUnknown)
			return
		case arg == "--" && name == "script":
			r.anywhere(args[i+1:], stdin)
			return
		case arg == "--":
			options = false
		case options && strings.HasPrefix(arg, "-"):
			o := w.option(arg)
			if o.next {
				if i++; i < len(args) {
					o.value = args[i]
				}
			}
			if strings.ContainsRune(o.value, unknown) {
				r.unclear(programUnknown)
				return
			}
			switch {
			case o.told == unheard:
				r.behind(name, args[i+1:], stdin)
				return
			case o.told == runValue && name == "env":
				r.unclear("env takes a text apart")
				return
			case o.told == runValue:
				r.nest(o.value)
			case name == "strace" && strings.IndexAny(o.value, "|!") == 0:
				r.unclear("strace writes into another program")
			case o.marks(name):
				mark = cmp.Or(o.value, "{}")
			}
		case words > 0:
			words--
			options = true // flock looks for one behind its lock, whatever stands before that
		case assignText.MatchString(arg):
			values = append(values, r.assigned(arg))
		default:
			if formOf(base(arg)) == other {
				r.bares(values)
			}
			r.wrapped(name, args[i:], mark, stdin)
			return
		}
	}
}

// wrapped reads a program as a wrapper runs it, with what is put in the place of a mark and what is added.
func (r *reader) wrapped(wrapper string, argv []string, mark string, stdin []string) {
	argv = slices.Clone(argv)
	if mark != "" {
		for i := range argv {
			argv[i] = strings.ReplaceAll(argv[i], mark, unknownText)
		}
		r.options(argv[1:])
	}
	if wrapper == "xargs" { // with a mark too: some options take that back
		argv = append(argv, unknownText)
	}
	if wrappingOf(wrapper).shell {
		r.nest(strings.Join(argv, " "))
		r = &reader{r.Found, r.scope, r.nested - 1} // or each of many in each other would be read as many times
	}
	r.runs(argv, stdin)
}

// marks reports whether an option of xargs says what stands for what it reads.
func (o option) marks(wrapper string) bool {
	return wrapper == "xargs" && (o.name == "I" || o.name == "i" || len(o.name) > 1 && strings.HasPrefix("replace", o.name))
}

// behind reads what stands behind an option of which nobody knows what it says.
func (r *reader) behind(wrapper string, rest, stdin []string) {
	if wrapper == "xargs" {
		r.unclear(programUnknown)
		return
	}
	if w := wrappingOf(wrapper); w.shell || w.scripts != "" {
		for _, arg := range rest {
			if strings.ContainsAny(arg, " \t\n") {
				r.nest(arg)
			}
		}
	}
	r.anywhere(rest, stdin)
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
			r.unclear(programUnknown)
			return
		case form == other, form == quiet, arg == ".": // the folder
		case !r.runs(args[i:], stdin):
			return
		}
	}
}

// find reads the commands of find, each of which ends with a word of its own. It goes nowhere by itself.
func (r *reader) find(args []string) {
	for i := 0; i < len(args); i++ {
		if !slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir"}, args[i]) {
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
