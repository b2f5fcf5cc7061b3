//go:build !darwin

package keychain

// system returns nil, since only macOS has a Keychain.
func system() items { return nil }
