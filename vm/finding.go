package vm

import (
	"fmt"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
)

// Finding is the result of one check of this host, such as whether QEMU is installed.
type Finding struct {
	What   string        `json:"what"` // what was checked: "qemu-system-x86_64", "KVM"
	Status FindingStatus `json:"status"`
	Detail string        `json:"detail"`
	// Fix is the command or step that fixes a problem, or empty.
	Fix string `json:"fix,omitempty"`
}

// FindingStatus says how much a finding matters.
type FindingStatus string

const (
	FindingOK      FindingStatus = "ok"
	FindingLimited FindingStatus = "limited" // machines run, but slower or with less
	FindingMissing FindingStatus = "missing" // no machine runs until it is fixed
)

// NewFinding returns the result of a check that succeeded with detail, or failed with err and
// has the status otherwise.
func NewFinding(what, detail string, err error, otherwise FindingStatus) Finding {
	if err != nil {
		return Finding{What: what, Status: otherwise, Detail: err.Error(), Fix: fault.AdviceOf(err)}
	}
	return Finding{What: what, Status: FindingOK, Detail: detail}
}

// CheckFiles checks that this process may open as many files as wanted. Each shared
// folder uses up to a quarter of the limit. fix is the advice if it is too low.
func CheckFiles(want uint64, fix string) Finding {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // Go has raised the soft limit to the hard limit
	if err == nil && limit.Cur < want {
		err = fault.Newf(fault.Unavailable, "", "", "limit %d (hard limit %d, recommended %d): guests can run out of open files in shared folders", limit.Cur, limit.Max, want).Advise(fix)
	}
	return NewFinding("open files", fmt.Sprintf("limit %d", limit.Cur), err, FindingLimited)
}
