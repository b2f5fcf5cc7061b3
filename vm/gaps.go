package vm

import (
	"slices"
	"strings"
)

// Gap is a promise that machines on this host do not keep.
type Gap struct {
	What     string   // for people
	Settings []string // that have no effect
}

// Gaps returns the promises that a driver with these capabilities does not keep.
func (c Capabilities) Gaps() []Gap {
	if slices.Contains(c.Ownership, OwnershipSubtree) {
		return nil
	}
	return []Gap{
		{"limits of home folders", []string{"limits.homeMB", "limits.homeFiles"}},
		{"free space that guests leave on this computer's disk", nil},
		{"owners of files in the workspace and shared folders: whoever asks is the owner", nil},
		{"there, this computer's own rules for letter case, hard links, locks, FIFOs, sockets and device nodes", nil},
	}
}

// CheckGaps returns a finding that lists the gaps, or nothing if there are none.
func CheckGaps(gaps []Gap) []Finding {
	if len(gaps) == 0 {
		return nil
	}
	return []Finding{{What: "not enforced here", Status: FindingLimited, Detail: strings.Join(Texts(gaps), "; ")}}
}

// Texts returns what people read about gaps, with the settings.
func Texts(gaps []Gap) []string {
	var texts []string
	for _, g := range gaps {
		text := g.What
		if len(g.Settings) > 0 {
			text += " (" + strings.Join(g.Settings, ", ") + ")"
		}
		texts = append(texts, text)
	}
	return texts
}
