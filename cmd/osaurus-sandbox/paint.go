package main

import (
	"io"
	"os"

	"osaurus-sandbox/supervisor/machine"
)

// paint colours words where a person reads them on a terminal, and leaves them
// as they are elsewhere.
type paint bool

// paintFor is what w can show: https://no-color.org and dumb terminals are honoured.
func paintFor(w io.Writer) paint {
	terminal := os.Getenv("TERM")
	return paint(terminalWidth(w) > 0 && os.Getenv("NO_COLOR") == "" && terminal != "" && terminal != "dumb")
}

// All colours are of the same length, so that columns stay in line.
func (p paint) good(text string) safe { return p.in("32", text) }
func (p paint) bad(text string) safe  { return p.in("31", text) }
func (p paint) busy(text string) safe { return p.in("33", text) }

func (p paint) in(colour, text string) safe {
	if !p {
		return safef("%s", text)
	}
	return "\x1b[" + safe(colour) + "m" + safef("%s", text) + "\x1b[0m"
}

// state colours the name of a state of the sandbox.
func (p paint) state(name string) safe {
	switch machine.State(name) {
	case machine.Running:
		return p.good(name)
	case machine.Failed, machine.Unresponsive, machine.SetupRequired:
		return p.bad(name)
	}
	return p.busy(name)
}
