package config

import (
	"path/filepath"
	"strings"
)

// Mounts configures the mounting of folders of this computer.
type Mounts struct {
	// Never are folders that no agent may have, beside those that are never mounted anyway.
	Never []HostFolder
}

func mountFields() table[Settings] {
	return table[Settings]{
		live(listField("mounts.never", "folders of this computer that are never mounted, beside keys and profiles", hostFolderAllowed, parseHostFolder, func(s *Settings) *[]HostFolder { return &s.Mounts.Never })),
	}
}

// HostFolder is a folder of this computer: an absolute path, or one that begins with "~/".
type HostFolder string

const (
	hostFolderAllowed = `an absolute path, or one in your home folder ("~/private")`
	maxHostFolder     = 1024 // bytes; macOS's longest path
)

func parseHostFolder(text string) (HostFolder, error) {
	below, inHome := strings.CutPrefix(text, "~/")
	if len(text) > maxHostFolder || strings.ContainsRune(text, 0) || !inHome && !filepath.IsAbs(text) {
		return "", notAllowed("read folder", text, hostFolderAllowed)
	}
	if inHome {
		return HostFolder("~/" + strings.TrimPrefix(filepath.Clean("/"+below), "/")), nil
	}
	return HostFolder(filepath.Clean(text)), nil
}

// In returns the path of the folder for the person with this home folder.
func (f HostFolder) In(home string) string {
	if below, ok := strings.CutPrefix(string(f), "~/"); ok {
		return filepath.Join(home, below)
	}
	return string(f)
}
