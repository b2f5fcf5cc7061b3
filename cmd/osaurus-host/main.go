// Command osaurus-host gives programs in an agent's room access to the host: secrets, settings, models, memory, tasks and events.
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
	"osaurus-sandbox/internal/printable"
)

func main() {
	s := system{os.Stdin, os.Stdout, os.Stderr, os.Getenv}
	os.Exit(run(context.Background(), s, os.Args[1:]))
}

// system is the program's environment.
type system struct {
	in, out, errors *os.File
	env             func(string) string
}

// run runs a command line and returns the exit code.
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
	}
	c, rest, err := find(commands(), words)
	if err != nil {
		return s.fail(err, false)
	}
	given, err := c.read(rest)
	if err == nil && given.help {
		io.WriteString(s.out, help([]command{c}))
		return 0
	}
	if err == nil {
		err = s.ask(ctx, c, given)
	}
	if err != nil {
		return s.fail(err, given.flags["json"] != "")
	}
	return 0
}

// ask runs a command and prints its answer.
func (s system) ask(ctx context.Context, c command, given given) error {
	if c.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.limit)
		defer cancel()
	}
	b, err := s.bridge()
	if err != nil {
		return err
	}
	defer b.Close()
	run := &call{s, given, b}
	answer, err := c.run(ctx, run)
	if err != nil || answer == nil && !run.has("json") {
		return err
	}
	text, plain := answer.(string)
	if !plain {
		if answer == nil {
			answer = struct{}{}
		}
		encoded, err := printable.JSON(answer)
		if err != nil {
			return err
		}
		text = string(encoded)
	}
	_, err = fmt.Fprintln(s.out, text)
	return err
}

// fail prints an error and returns its exit code.
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

// version returns the version that this program was built from.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
