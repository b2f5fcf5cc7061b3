package main

import (
	"os"
	"os/exec"
)

// opener is the program that opens a file as a double click would, if there is a
// desktop.
func opener() string {
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return ""
	}
	program, _ := exec.LookPath("xdg-open") // without it there is none
	return program
}
