package homelock

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// startTime returns the start of a process, in clock ticks since the boot.
func startTime(pid int) (uint64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The program's name is in parentheses and may contain parentheses.
	const start = 22 - 3 // the field's number in proc(5), counted from what follows the name
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= start {
		return 0, fmt.Errorf("/proc/%d/stat has only %d fields", pid, len(fields))
	}
	return strconv.ParseUint(fields[start], 10, 64)
}

// bootID returns an id that changes with every boot of the computer.
func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
}
