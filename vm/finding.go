package vm

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Finding is one thing that a driver says of this host when asked whether and
// how well it can run machines.
type Finding struct {
	// What was looked at: "qemu-system-x86_64", "KVM".
	What   string        `json:"what"`
	Status FindingStatus `json:"status"`
	// Detail is what was found, in a few words.
	Detail string `json:"detail"`
	// Mend is the exact command or step that mends it, or empty.
	Mend string `json:"mend,omitempty"`
}

// FindingStatus says how much a finding matters.
type FindingStatus string

const (
	FindingOK      FindingStatus = "ok"
	FindingLimited FindingStatus = "limited" // machines run, but slower or with less
	FindingMissing FindingStatus = "missing" // no machine runs until it is mended
)

// CheckFiles says whether this process may have as many files open as a driver
// wants, and what mends it if not.
func CheckFiles(want uint64, mend string) Finding {
	f := Finding{What: "open files", Status: FindingOK}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		f.Status, f.Detail = FindingLimited, err.Error()
		return f
	}
	// Go has raised the soft limit by itself, as far as the system lets it.
	f.Detail = fmt.Sprintf("%d may be open", limit.Cur)
	if limit.Cur < want {
		f.Status, f.Mend = FindingLimited, mend
	}
	return f
}
