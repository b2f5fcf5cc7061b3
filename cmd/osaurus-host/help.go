package main

import (
	"fmt"
	"strings"
)

const helpBegin = `osaurus-host gives programs in this sandbox access to the host.

`

const helpEnd = `
Exit codes:
  0 done              3 refused by a rule or limit   6 the host or a service is not available
  1 tried and failed  4 denied by a person           7 no such thing
  2 wrong request     5 no answer in time            8 no such tool

Secrets and settings belong to a plugin: $OSAURUS_PLUGIN, or the name of the
current folder. "-" is standard input. Errors go to standard error.
osaurus-host COMMAND --help shows an example; osaurus-host --version shows the version.
`

// help returns the help for several commands, one line each, or all about a single one.
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
	b.WriteString(helpBegin)
	for _, c := range of {
		fmt.Fprintf(&b, "  %-28s %s\n", usage(c), c.summary)
	}
	b.WriteString(helpEnd)
	return b.String()
}

func usage(c command) string {
	return strings.TrimSpace(c.name + " " + c.arguments)
}
