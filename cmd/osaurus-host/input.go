package main

import (
	"fmt"
	"io"
	"os"
)

// readAll reads what comes in.
func readAll(in *os.File) (string, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err != nil {
		return "", err
	}
	if len(text) > maxInput {
		return "", misused(fmt.Sprintf("what comes in is larger than %d MiB", maxInput>>20), "Split it up.")
	}
	return string(text), nil
}

// interactive reports whether somebody watches. /dev/null does too; it does not matter.
func interactive(out *os.File) bool {
	info, err := out.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
