package vm

import "slices"

// Gaps returns the promises, for people, that machines of a driver with these capabilities do not
// keep, and the settings that have no effect.
func (c Capabilities) Gaps() []string {
	if slices.Contains(c.Ownership, OwnershipSubtree) {
		return nil
	}
	return []string{
		"limits of home folders (limits.homeMB, limits.homeFiles)",
		"free space that guests leave on this computer's disk",
		"owners of files in the workspace and shared folders: each user sees itself as the owner",
		"there, this computer's own rules for letter case, hard links, locks, FIFOs, sockets and device nodes",
	}
}
