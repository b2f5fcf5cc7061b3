//go:build linux

package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
)

// markSeparator is between the number of a child's group and its mark.
const markSeparator = "."

// Mark is what the child was marked with that a process belongs to, or empty. A process
// cannot leave its group, so this is the kernel's word and not its own. Whoever
// asks sees to it that the number is still that of the process.
func Mark(pid int) (string, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return "", fmt.Errorf("find the group of a process: %w", err)
	}
	return markIn(text)
}

// markIn reads what the kernel says of a process's groups.
func markIn(text []byte) (string, error) {
	for line := range bytes.Lines(text) {
		where, ok := strings.CutPrefix(string(bytes.TrimSuffix(line, []byte("\n"))), "0::") // of cgroup2
		if !ok {
			continue
		}
		number, mark, marked := strings.Cut(path.Base(where), markSeparator)
		if _, err := strconv.ParseUint(number, 10, 64); err != nil || !marked {
			return "", nil
		}
		return mark, nil
	}
	return "", errors.New("the process has no group of cgroup2")
}
