package main

import (
	"bufio"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"osaurus-sandbox/internal/fault"
)

// typedLine reads the next line that a person types, until the context ends.
func typedLine(ctx context.Context, from *bufio.Reader) (string, error) {
	type line struct {
		text string
		err  error
	}
	typed := make(chan line, 1)
	go func() { // stays behind if nobody types, since nothing ends its read
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

// someoneThere reports whether a person can be asked.
func someoneThere(c console) bool { return terminalWidth(c.err) > 0 && isTerminal(c.in) }

// confirmed makes cmd ask what question says before it runs, unless --yes is given.
func confirmed(c console, cmd *cobra.Command, question func(args []string) (what, loss string)) *cobra.Command {
	yes := cmd.Flags().Bool("yes", false, "do not ask")
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		what, loss := question(args)
		return confirm(cmd.Context(), c, *yes, what, loss)
	}
	return withJSON(cmd)
}

// confirm asks a person whether they mean it, unless they have said yes.
func confirm(ctx context.Context, c console, yes bool, what, loss string) error {
	if yes {
		return nil
	}
	if !someoneThere(c) {
		return fault.Newf(fault.InvalidArgs, what, "", "nobody is there to ask").Advise("Say --yes if you mean it. " + loss)
	}
	writef(c.err, "%s\n%s? [y/N] ", lines(loss), strings.ToUpper(what[:1])+what[1:])
	line, err := typedLine(ctx, bufio.NewReader(c.in))
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	if err != nil {
		writef(c.err, "\n") // no answer ended the line
	}
	return fault.Newf(fault.UserDenied, what, "", "you did not say yes").Advise("Nothing was changed. Answer y, or say --yes with the command.")
}
