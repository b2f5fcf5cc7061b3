package pack

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
)

// ManifestName is the manifest's file name in a pack's folder and archive.
const ManifestName = "manifest.json"

const (
	// format is the manifest format that this program writes and reads.
	format = 1
	// maxManifest bounds a manifest in bytes. Those of this program have about 1 KiB.
	maxManifest = 256 << 10
	// MaxFile bounds a file of a pack in bytes. The largest known, a Debian root file
	// system, has 350 MB.
	MaxFile = 4 << 30
	// maxText bounds the version and the origins in bytes.
	maxText = 256
	// maxOrigins bounds the list of origins.
	maxOrigins = 64
)

// PackageTool is the program that installs packages in a guest.
type PackageTool string

const (
	APK PackageTool = "apk" // Alpine
	APT PackageTool = "apt" // Debian, Ubuntu
)

// Manifest describes a pack and pins each of its files.
type Manifest struct {
	Format       int         `json:"format"`
	Name         string      `json:"name"`         // unique in a store, such as alpine-3.24.1-amd64
	Distribution string      `json:"distribution"` // alpine, debian
	Version      string      `json:"version"`      // the distribution's own
	Arch         vm.Arch     `json:"arch"`
	PackageTool  PackageTool `json:"packageTool"`

	Kernel  File `json:"kernel"`  // a bzImage (amd64) or a plain Image (arm64)
	Modules File `json:"modules"` // a tar, plain, .gz or .zst, of lib/modules/RELEASE
	Root    File `json:"root"`    // a tar, plain, .gz or .zst, of the root file system

	// Origins lists what the pack was made from, for information only. The pack's
	// digest does not cover it.
	Origins []Origin `json:"origins,omitempty"`
}

// Origin is a file or package that a pack was made from.
type Origin struct {
	Name   string `json:"name"`
	SHA256 Digest `json:"sha256,omitzero"`
}

// Files returns the files of the pack: kernel, modules, root.
func (m Manifest) Files() []File { return []File{m.Kernel, m.Modules, m.Root} }

// Digest identifies the content of a pack. It does not cover names and origins.
func (m Manifest) Digest() Digest {
	m.Name, m.Origins = "", nil
	for _, f := range []*File{&m.Kernel, &m.Modules, &m.Root} {
		f.Name = ""
	}
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // plain data always marshals
	}
	return sha256.Sum256(text)
}

// ParseManifest parses and validates a manifest. Errors name the invalid key.
func ParseManifest(text []byte) (m Manifest, err error) {
	err = json.Unmarshal(text, &m)
	switch {
	case len(text) > maxManifest:
		err = fmt.Errorf("it is longer than %d bytes", maxManifest)
	case err == nil && m.Format != format:
		err = fmt.Errorf("format %d is not supported, only %d", m.Format, format)
	case err == nil:
		err = m.check()
	}
	if err != nil {
		return Manifest{}, fault.New(fault.InvalidArgs, "read pack manifest", "", err)
	}
	return m, nil
}

// ValidName reports whether a name is valid for a pack and its folder.
func ValidName(name string) bool {
	_, err := config.ParsePackName(name)
	return err == nil
}

// checkName checks a name in a manifest. The rules for pack names apply to all.
func checkName(key, name string) error {
	if _, err := config.ParsePackName(name); err != nil {
		return fmt.Errorf("%s %q is not allowed: %s", key, name, fault.AdviceOf(err))
	}
	return nil
}

func (m Manifest) check() error {
	if err := errors.Join(checkName("name", m.Name), checkName("distribution", m.Distribution)); err != nil {
		return err
	}
	if m.Arch != vm.AMD64 && m.Arch != vm.ARM64 {
		return fmt.Errorf("arch %q is neither %s nor %s", m.Arch, vm.AMD64, vm.ARM64)
	}
	if m.PackageTool != APK && m.PackageTool != APT {
		return fmt.Errorf("packageTool %q is neither %s nor %s", m.PackageTool, APK, APT)
	}
	if !plainText(m.Version) || len(m.Origins) > maxOrigins {
		return errors.New("version or origins are not short plain text")
	}
	for _, o := range m.Origins {
		if !plainText(o.Name) {
			return fmt.Errorf("origin %q is not short plain text", o.Name)
		}
	}
	seen := map[string]bool{ManifestName: true}
	for i, f := range m.Files() {
		key := []string{"kernel", "modules", "root"}[i]
		if err := checkName(key+".name", f.Name); err != nil {
			return err
		}
		switch {
		case seen[f.Name]:
			return fmt.Errorf("%s.name %q is taken by another file", key, f.Name)
		case f.Size <= 0 || f.Size > MaxFile:
			return fmt.Errorf("%s.size %d is not between 1 and %d", key, f.Size, int64(MaxFile))
		case f.SHA256.IsZero():
			return fmt.Errorf("%s.sha256 is missing", key)
		}
		seen[f.Name] = true
	}
	return nil
}

// plainText reports whether s is short and safe to show on a terminal.
func plainText(s string) bool {
	return len(s) <= maxText && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}
