package boot

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

// record describes what was provisioned. It is written last and removed first, so
// that it exists only while everything is complete.
type record struct {
	Pack    config.PackRef       `json:"pack"`    // the setting
	Toolbox []config.PackageName `json:"toolbox"` // the setting
	Image   string               `json:"image"`   // the image's digest
	Kernel  string               `json:"kernel"`
	Base    string               `json:"base"`
	// BaseDigest is that of the base alone: another guest program makes another image of the same base.
	BaseDigest string   `json:"baseDigest"`
	Missing    []string `json:"missing,omitempty"` // packages of the toolbox that could not be installed
}

// fits reports whether the record is for these settings.
func (r record) fits(set config.Settings) bool {
	return r.Pack == set.Pack && slices.Equal(r.Toolbox, set.Toolbox)
}

func recordFile(home config.Home) string {
	return filepath.Join(filepath.Dir(home.DataDisk()), "provisioned.json")
}

// BaseOf returns the digest of the base that a home's sandbox boots, or "" if it is not provisioned.
// The layers on its data disk need that base.
func BaseOf(home config.Home) string {
	r, _ := readRecord(home)
	return r.BaseDigest
}

func readRecord(home config.Home) (r record, ok bool) {
	text, err := os.ReadFile(recordFile(home))
	if err != nil || json.Unmarshal(text, &r) != nil {
		return record{}, false
	}
	return r, true
}

// writeRecord leaves an equal record alone, also on a full disk.
func (s *Site) writeRecord(r record) error {
	file := recordFile(s.home)
	text, err := printable.Document(r)
	if err != nil {
		return fault.New(fault.Execution, "write", file, err)
	}
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, text) {
		return nil
	}
	return config.WriteFile(file, text)
}

// Provisioned reports whether Prepare has succeeded since the last Remove.
func (s *Site) Provisioned() bool {
	_, ok := readRecord(s.home)
	return ok
}

// Ready reports whether Prepare has almost nothing to do.
func (s *Site) Ready(set config.Settings) bool {
	r, ok := readRecord(s.home)
	if !ok || !r.fits(set) {
		return false
	}
	for _, path := range []string{r.Kernel, r.Base, s.home.DataDisk()} {
		if _, err := os.Stat(path); err != nil {
			return false
		}
	}
	return true
}
