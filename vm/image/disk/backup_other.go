//go:build !darwin

package disk

// excludeFromBackups is for Time Machine, which only macOS has.
func excludeFromBackups(string) {}
