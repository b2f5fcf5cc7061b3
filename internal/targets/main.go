// Command targets prints what make bench measured beside what it is to reach.
//
// It takes the output of go test -bench. A figure that is off its target is no failure: the
// host may be busy, and two computers differ. One that was not measured is.
package main

import (
	"fmt"
	"io"
	"os"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu"
)

func main() {
	accelerator, _ := qemu.ChooseAccelerator(vm.HostArch())
	if err := run(os.Stdin, os.Stdout, fmt.Sprint(accelerator)); err != nil {
		fmt.Fprintln(os.Stderr, "targets:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer, accelerator string) error {
	figures, err := read(in)
	if err != nil {
		return err
	}
	missing := table(out, list(), figures)
	fmt.Fprintf(out, "\nGuests of this computer's own architecture run by %s here.\n", accelerator)
	if missing > 0 {
		return fmt.Errorf("%d of the figures were not measured", missing)
	}
	return nil
}
