package vm

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
