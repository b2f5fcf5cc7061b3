//go:build linux

// Command spawn starts a program again and again and prints how long each took, in nanoseconds: spawn ROUNDS PROGRAM [ARGUMENT...].
package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

func main() {
	rounds, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	for range rounds {
		began := time.Now()
		pid, err := syscall.ForkExec(os.Args[2], os.Args[2:], &syscall.ProcAttr{Env: os.Environ()})
		if err == nil {
			_, err = syscall.Wait4(pid, nil, 0, nil)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(time.Since(began).Nanoseconds())
	}
}
