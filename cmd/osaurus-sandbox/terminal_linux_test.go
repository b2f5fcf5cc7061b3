package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// otherEnd is the terminal that a program is given, of which this is the
// person's end.
func otherEnd(master *os.File) (string, error) {
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return "", err
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	return fmt.Sprintf("/dev/pts/%d", number), err
}
