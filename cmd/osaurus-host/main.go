// Command osaurus-host asks the host, for programs in an agent's sandbox: for secrets, settings, a model's answer, and what else the bridge offers.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/internal/fault"
)

func main() {
	s := system{os.Stdin, os.Stdout, os.Stderr, os.Getenv}
	os.Exit(run(context.Background(), s, os.Args[1:]))
}

// system is what the program has around it.
type system struct {
	in, out, errors *os.File
	env             func(string) string
}

// run does what the words say and returns the exit code.
func run(ctx context.Context, s system, words []string) int {
	if len(words) == 0 {
		io.WriteString(s.errors, help(commands()))
		return fault.ExitInvalidArgs
	}
	switch words[0] {
	case "--version", "version":
		fmt.Fprintln(s.out, "osaurus-host "+version())
		return 0
	case "--help", "-h", "help":
		io.WriteString(s.out, help(under(commands(), words[1:])))
		return 0
	case wire.Connect: // which help does not show: it asks nothing of the host
		if err := s.connect(ctx, words[1:]); err != nil {
			return s.fail(err, false)
		}
		return 0
	}
	c, rest, err := find(commands(), words)
	if err != nil {
		return s.fail(err, false)
	}
	given, err := c.read(rest)
	if err != nil {
		return s.fail(err, given.flags["json"] != "")
	}
	if given.help {
		io.WriteString(s.out, help([]command{c}))
		return 0
	}
	if err := c.run(ctx, &call{system: s, given: given}); err != nil {
		return s.fail(err, given.flags["json"] != "")
	}
	return 0
}

// fail prints why a command failed and returns the exit code.
func (s system) fail(err error, asJSON bool) int {
	kind, advice := fault.KindOf(err), fault.AdviceOf(err)
	if asJSON {
		json.NewEncoder(s.errors).Encode(wire.Failure{Error: err.Error(), Kind: kind, Advice: advice})
		return kind.ExitCode()
	}
	fmt.Fprintf(s.errors, "osaurus-host: %v\n", err)
	if advice != "" {
		fmt.Fprintf(s.errors, "advice: %s\n", advice)
	}
	return kind.ExitCode()
}

// version is what the build knows of its source.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
