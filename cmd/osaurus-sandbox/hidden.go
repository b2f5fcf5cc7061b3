package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/secrets/agefile"
)

// readSecret reads a secret: all of standard input without its last newline, or
// a line that is typed and not shown.
func readSecret(ctx context.Context, c console, what string) (secrets.Value, error) {
	if isTerminal(c.in) {
		return readHidden(ctx, c.in.(*os.File), c.err, what)
	}
	const newline = 2 // bytes, at most
	text, err := io.ReadAll(io.LimitReader(c.in, secrets.MaxValueSize+newline+1))
	if err != nil {
		return secrets.Value{}, fault.New(fault.Execution, "read", what, err)
	}
	if line, ended := strings.CutSuffix(string(text), "\n"); ended {
		return secrets.ParseValue(strings.TrimSuffix(line, "\r"))
	}
	return secrets.ParseValue(string(text))
}

// readHidden asks for a line on a terminal and does not show it. The terminal is
// as it was afterwards, also if somebody pressed Ctrl-C.
func readHidden(ctx context.Context, terminal *os.File, w io.Writer, what string) (secrets.Value, error) {
	const op = "read"
	restore, err := hideTyping(terminal)
	if err != nil {
		return secrets.Value{}, err
	}
	writef(w, "Type %s (it is not shown): ", what)
	defer fmt.Fprintln(w)
	text, err := typedLine(ctx, bufio.NewReader(terminal))
	switch err = errors.Join(err, restore()); {
	case errors.Is(err, io.EOF):
		return secrets.Value{}, fault.Newf(fault.UserDenied, op, what, "nothing was typed")
	case err != nil:
		return secrets.Value{}, fault.Wrap(op, what, err)
	}
	return secrets.ParseValue(strings.TrimSuffix(text, "\n"))
}

// passphrasePrompt asks on the terminal that this program was started on, even
// if its input comes from elsewhere; nil if there is none.
func passphrasePrompt(c console) agefile.Prompt {
	const name = "/dev/tty"
	terminal, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	terminal.Close()
	return func(ctx context.Context) (secrets.Value, error) {
		terminal, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return secrets.Value{}, fault.New(fault.Unavailable, "ask for the passphrase", name, err).
				Advise("Run it on a terminal, or name a file with the passphrase in " + agefile.PassphraseFileVariable + ".")
		}
		defer terminal.Close()
		return readHidden(ctx, terminal, c.err, "the passphrase of the secrets' key")
	}
}
