package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"osaurus-sandbox/internal/fault"
)

// given is a command's arguments and flags. A flag without a value is "true".
type given struct {
	words []string
	flags map[string]string
	help  bool
}

// looksLikeFlag tells flags from texts that begin with a dash: "-5", "- milk" and "--no, really"
// are texts. The package flag would refuse them.
func looksLikeFlag(word string) bool {
	name, _, _ := strings.Cut(word, "=")
	name, dashed := strings.CutPrefix(name, "-")
	name = strings.TrimPrefix(name, "-")
	if !dashed || name == "" || name[0] == '-' {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return r != '-' && (r < 'a' || r > 'z') })
}

// find returns the command at the beginning of words, and the words after it.
func find(all []command, words []string) (command, []string, error) {
	for _, c := range all {
		name := strings.Fields(c.name)
		if len(words) >= len(name) && slices.Equal(name, words[:len(name)]) {
			return c, words[len(name):], nil
		}
	}
	var names []string
	for _, c := range under(all, words) {
		names = append(names, c.name)
	}
	return command{}, nil, misused("no such command: "+strings.Join(words[:min(len(words), 3)], " "),
		"There is: "+strings.Join(names, ", ")+". See osaurus-host --help.")
}

// under returns the commands that begin with the first word, or all if there is none.
func under(all []command, words []string) []command {
	var near []command
	for _, c := range all {
		if len(words) > 0 && strings.HasPrefix(c.name+" ", words[0]+" ") {
			near = append(near, c)
		}
	}
	if near == nil {
		return all
	}
	return near
}

// read separates flags from arguments. Everything after "--" is an argument.
func (c command) read(words []string) (given, error) {
	g := given{flags: map[string]string{}}
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		if word == "--" {
			g.words = append(g.words, words...)
			break
		}
		if !looksLikeFlag(word) {
			g.words = append(g.words, word)
			continue
		}
		name, value, hasValue := strings.Cut(strings.TrimLeft(word, "-"), "=")
		if name == "help" || name == "h" {
			g.help = true
			return g, nil
		}
		i := slices.IndexFunc(c.flags, func(f flag) bool { return f.name == name || f.short == name })
		if i < 0 {
			return g, c.misused("it has no flag %s", word)
		}
		f := c.flags[i]
		switch {
		case f.value == "" && hasValue:
			return g, c.misused("--%s takes no value", f.name)
		case f.value == "":
			value = "true"
		case !hasValue && len(words) == 0:
			return g, c.misused("--%s needs a value", f.name)
		case !hasValue:
			value, words = words[0], words[1:]
		}
		g.flags[f.name] = value
	}
	if len(g.words) < c.least || len(g.words) > c.most {
		takes := c.arguments
		if takes == "" {
			takes = "no arguments"
		}
		return g, c.misused("it takes %s, not %d words", takes, len(g.words))
	}
	return g, nil
}

func (c command) misused(format string, args ...any) error {
	return misused(c.name+": "+fmt.Sprintf(format, args...),
		"See osaurus-host "+c.name+" --help. Write text that looks like a flag after --, and text with spaces in quotes.")
}

func misused(what, advice string) error {
	return fault.New(fault.InvalidArgs, "", "", errors.New(what)).Advise(advice)
}
