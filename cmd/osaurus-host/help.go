package main

import (
	"fmt"
	"strings"
)

const about = `osaurus-host asks the host of this sandbox.

`

const afterwards = `
Exit codes:
  0 done              3 refused by a rule or limit   6 the host or what it needs is not there
  1 tried and failed  4 denied by a person           7 no such thing
  2 wrong request     5 no answer in time            8 no such tool

Secrets and config belong to a plugin: the one that runs this; for other programs
$OSAURUS_PLUGIN, or else the name of the folder.
"-" is what comes in on standard input. Errors go to standard error.
osaurus-host COMMAND --help shows an example; osaurus-host --version says which this is.
`

// help is the text about some commands: all with one line each, or one whole.
func help(of []command) string {
	var b strings.Builder
	if len(of) == 1 {
		c := of[0]
		fmt.Fprintf(&b, "osaurus-host %s\n  %s\n", usage(c), c.summary)
		for _, f := range c.flags {
			names := "--" + f.name
			if f.short != "" {
				names = "-" + f.short + ", " + names
			}
			fmt.Fprintf(&b, "  %-22s %s\n", strings.TrimSpace(names+" "+f.value), f.summary)
		}
		fmt.Fprintf(&b, "Example:\n  %s\n", c.example)
		return b.String()
	}
	b.WriteString(about)
	for _, c := range of {
		fmt.Fprintf(&b, "  %-28s %s\n", usage(c), c.summary)
	}
	b.WriteString(afterwards)
	return b.String()
}

func usage(c command) string {
	return strings.TrimSpace(c.name + " " + c.arguments)
}
