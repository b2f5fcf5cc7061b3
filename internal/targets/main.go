// Command targets prints what make bench measured beside what it is to reach.
//
// It takes the output of go test -bench. A figure that is off its target is no failure: the
// host may be busy, and two computers differ. One that was not measured is.
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "targets:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	figures, err := read(in)
	if err != nil {
		return err
	}
	if missing := table(out, list(), figures); missing > 0 {
		return fmt.Errorf("%d of the figures were not measured", missing)
	}
	return nil
}
