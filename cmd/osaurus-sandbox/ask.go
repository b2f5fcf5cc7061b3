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

// typedLine reads a line until the context ends.
func typedLine(ctx context.Context, from *bufio.Reader) (string, error) {
	type line struct {
		text string
		err  error
	}
	typed := make(chan line, 1)
	go func() { // blocks until the next line if the context ends first
		text, err := from.ReadString('\n')
		typed <- line{text, err}
	}()
	select {
	case l := <-typed:
		return l.text, l.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// canAsk reports whether a person can answer questions.
func canAsk(c console) bool { return terminalWidth(c.err) > 0 && terminalWidth(c.in) > 0 }

// confirm asks a person for confirmation unless yes is set.
func confirm(ctx context.Context, c console, yes bool, what, loss string) error {
	if yes {
		return nil
	}
	if !canAsk(c) {
		return fault.Newf(fault.InvalidArgs, what, "", "there is no terminal to ask on").Advise("Use --yes to confirm. " + loss)
	}
	writef(c.err, "%s\n%s? [y/N] ", lines(loss), strings.ToUpper(what[:1])+what[1:])
	line, err := typedLine(ctx, bufio.NewReader(c.in))
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	if err != nil {
		writef(c.err, "\n") // end the line of the question
	}
	return fault.Newf(fault.UserDenied, what, "", "not confirmed").Advise("Nothing was changed. Answer y, or use --yes.")
}

// readSecret reads all of standard input without its last newline or, on a terminal, a line
// without echo.
func readSecret(ctx context.Context, c console, what string) (secrets.Value, error) {
	if terminalWidth(c.in) > 0 {
		return readHidden(ctx, c.in.(*os.File), c.err, what)
	}
	const newline = 2 // bytes, for \r\n
	text, err := io.ReadAll(io.LimitReader(c.in, secrets.MaxValueSize+newline+1))
	if err != nil {
		return secrets.Value{}, fault.New(fault.Execution, "read", what, err)
	}
	if line, ended := strings.CutSuffix(string(text), "\n"); ended {
		return secrets.ParseValue(strings.TrimSuffix(line, "\r"))
	}
	return secrets.ParseValue(string(text))
}

// readHidden asks for a line on a terminal without echo. It restores the terminal even after
// Ctrl-C.
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

// passphrasePrompt returns a prompt on this program's terminal, even if standard input is
// redirected. It returns nil if there is no terminal.
func passphrasePrompt(c console) agefile.Prompt {
	terminal, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return func(ctx context.Context) (secrets.Value, error) {
		return readHidden(ctx, terminal, c.err, "the passphrase of the secrets' key")
	}
}
