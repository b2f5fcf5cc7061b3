// Package command reads a shell command before it runs, as a shell would: which hosts it names, and where it makes code of what it is given.
package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

const (
	// maxText is how long a command may be that anybody reads: what one argument of a program holds.
	maxText = 128 << 10
	// maxNested is how deep commands may be in each other: sh -c 'sh -c "…"'. More is somebody hiding.
	maxNested = 4
	// maxReadings bounds how often a text is read for the values that its variables may have.
	maxReadings = 16
	// maxSteps bounds the looking up of variables in variables: a long command of people has some hundred parts.
	maxSteps = 5_000
	// maxCommands is how many commands and wrapped programs are in one, in whatever depth.
	maxCommands = 200
	// maxHosts is more than anybody reads.
	maxHosts = 100
)

// parse reads a command as bash has it, which both guests run commands with.
func parse(text string) (*syntax.File, error) {
	switch {
	case len(text) > maxText:
		return nil, fmt.Errorf("%d bytes are more than anybody reads", len(text))
	case strings.ContainsRune(text, unknown):
		return nil, errors.New("it has a NUL character")
	}
	return syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
}

// Check reports a text that is no command for bash.
func Check(text string) error {
	_, err := parse(text)
	return err
}

// Variables are those that a command uses whose names begin so, each once.
func Variables(text, prefix string) []string {
	file, err := parse(text)
	if err != nil {
		return nil
	}
	var names []string
	syntax.Walk(file, func(n syntax.Node) bool {
		if p, ok := n.(*syntax.ParamExp); ok && p.Param != nil && strings.HasPrefix(p.Param.Value, prefix) && !slices.Contains(names, p.Param.Value) {
			names = append(names, p.Param.Value)
		}
		return true
	})
	return names
}

// base is the name of a program without its folder.
func base(program string) string { return program[strings.LastIndexByte(program, '/')+1:] }
