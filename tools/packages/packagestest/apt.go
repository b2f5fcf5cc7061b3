package packagestest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
)

// APT is a flat Debian repository without a signature. Guests must list it as trusted.
type APT struct{ Server }

// NewAPT makes a repository of packages.
func NewAPT(t testing.TB, packages ...Package) *APT {
	t.Helper()
	r := &APT{}
	r.Publish(t, packages...)
	return r
}

// DebPath returns a package's path in a Debian repository.
func (p Package) DebPath() string { return "/" + p.Name + "_" + p.version() + "_all.deb" }

// Publish replaces the index with one of these packages. Files of earlier packages remain.
func (r *APT) Publish(t testing.TB, packages ...Package) {
	t.Helper()
	var index strings.Builder
	for _, p := range packages {
		about := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: nobody <nobody@localhost>\nDescription: a test\n", p.Name, p.version())
		if p.Depends != "" {
			about += "Depends: " + p.Depends + "\n"
		}
		file := deb(t, p, about)
		r.Put(p.DebPath(), file)
		fmt.Fprintf(&index, "%sFilename: .%s\nSize: %d\nSHA256: %x\n\n", about, p.DebPath(), len(file), sha256.Sum256(file))
	}
	list := []byte(index.String())
	r.Put("/Packages", list)
	r.Put("/Release", fmt.Appendf(nil, "Date: Sat, 01 Jan 2022 00:00:00 UTC\nSHA256:\n %x %d Packages\n", sha256.Sum256(list), len(list)))
}

// deb makes a package file.
func deb(t testing.TB, p Package, about string) []byte {
	t.Helper()
	control := map[string]string{"control": about}
	if p.PostInstall != "" {
		control["postinst"] = p.PostInstall
	}
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	for _, member := range []struct {
		name string
		data []byte
	}{{"debian-binary", []byte("2.0\n")}, {"control.tar.gz", archive(t, true, false, control)}, {"data.tar.gz", archive(t, true, false, p.Files)}} {
		fmt.Fprintf(&b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", member.name, 0, 0, 0, "100644", len(member.data))
		b.Write(member.data)
		if len(member.data)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}
