package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// otherEnd returns the path of a pseudo-terminal's other end, which a program gets.
func otherEnd(master *os.File) (string, error) {
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return "", err
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	return fmt.Sprintf("/dev/pts/%d", number), err
}
