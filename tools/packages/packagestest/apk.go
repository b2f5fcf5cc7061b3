package packagestest

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
)

// KeyName is the name of the repository's key in /etc/apk/keys.
const KeyName = "test@osaurus.rsa.pub"

// APK is a signed Alpine repository.
type APK struct {
	Server
	key *rsa.PrivateKey
}

// Package describes a package to build.
type Package struct {
	Name, Version string // apk adds a release; 1.0 if empty
	Depends       string
	PostInstall   string            // a script
	Files         map[string]string // with mode 0755
}

func (p Package) version() string { return cmp.Or(p.Version, "1.0") }

// apkMain is the path of packages on a mirror.
const apkMain = "/v3.20/main/x86_64/"

// Path returns a package's path on an Alpine mirror.
func (p Package) Path() string { return apkMain + p.Name + "-" + p.version() + "-r0.apk" }

// NewAPK makes a repository of packages.
func NewAPK(t testing.TB, packages ...Package) *APK {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	r := &APK{key: key}
	r.Publish(t, packages...)
	r.Put("/v3.20/community/x86_64/APKINDEX.tar.gz", r.index(t, ""))
	return r
}

// Publish replaces the index with one of these packages. Files of earlier packages remain.
func (r *APK) Publish(t testing.TB, packages ...Package) {
	t.Helper()
	var index strings.Builder
	for _, p := range packages {
		file, entry := r.build(t, p)
		r.Put(p.Path(), file)
		index.WriteString(entry)
	}
	r.Put(apkMain+"APKINDEX.tar.gz", r.index(t, index.String()))
}

func (r *APK) index(t testing.TB, entries string) []byte {
	return r.sign(t, segment(t, true, map[string]string{"DESCRIPTION": "test", "APKINDEX": entries}))
}

// build makes a package file and its entry in the index.
func (r *APK) build(t testing.TB, p Package) (file []byte, entry string) {
	data := segment(t, true, p.Files)
	hash := sha256.Sum256(data)
	info := fmt.Sprintf("pkgname = %s\npkgver = %s-r0\npkgdesc = a test\nurl = http://localhost\nsize = 1\narch = x86_64\nlicense = none\n", p.Name, p.version())
	if p.Depends != "" {
		info += "depend = " + p.Depends + "\n"
	}
	info += "datahash = " + hex.EncodeToString(hash[:]) + "\n"
	control := map[string]string{".PKGINFO": info}
	if p.PostInstall != "" {
		control[".post-install"] = p.PostInstall
	}
	head := segment(t, false, control)
	id := sha1.Sum(head)
	file = append(r.sign(t, head), data...)
	entry = fmt.Sprintf("C:Q1%s\nP:%s\nV:%s-r0\nA:x86_64\nS:%d\nI:1\nT:a test\nU:http://localhost\nL:none\n",
		base64.StdEncoding.EncodeToString(id[:]), p.Name, p.version(), len(file))
	if p.Depends != "" {
		entry += "D:" + p.Depends + "\n"
	}
	return file, entry + "\n"
}

// Replace changes a package's files but keeps its signature, like an attacker who controls the
// mirror but not the key. It returns the original package.
func (r *APK) Replace(t testing.TB, p Package) (good []byte) {
	good = r.File(p.Path())
	third := 0 // where the third gzip stream starts
	for range 2 {
		third += 1 + bytes.Index(good[third+1:], []byte("\x1f\x8b\x08"))
	}
	r.Put(p.Path(), append(bytes.Clone(good[:third]), segment(t, true, p.Files)...))
	return good
}

// sign prepends a signature to a segment.
func (r *APK) sign(t testing.TB, signed []byte) []byte {
	sum := sha1.Sum(signed)
	signature, err := rsa.SignPKCS1v15(nil, r.key, crypto.SHA1, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return append(segment(t, false, map[string]string{".SIGN.RSA." + KeyName: string(signature)}), signed...)
}

// segment returns a gzip stream of an apk file, which is several of them. Only the last has an
// end-of-archive marker.
func segment(t testing.TB, last bool, files map[string]string) []byte {
	t.Helper()
	return archive(t, last, true, files)
}

// archive returns a gzipped tar archive of files with mode 0755 and their parent folders. dpkg does not
// support checksums.
func archive(t testing.TB, last, checksums bool, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	var err error
	made := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for i, c := range name {
			if c == '/' && !made[name[:i]] {
				made[name[:i]] = true
				err = errors.Join(err, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name[:i] + "/", Mode: 0o755}))
			}
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(files[name]))}
		if sum := sha1.Sum([]byte(files[name])); checksums && strings.Contains(name, "/") { // a file of the package, not metadata
			h.PAXRecords = map[string]string{"APK-TOOLS.checksum.SHA1": hex.EncodeToString(sum[:])}
		}
		err = errors.Join(err, w.WriteHeader(h))
		_, failed := io.WriteString(w, files[name])
		err = errors.Join(err, failed)
	}
	end := w.Flush
	if last {
		end = w.Close
	}
	if err = errors.Join(err, end(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// PublicKey returns the key for the guest's /etc/apk/keys.
func (r *APK) PublicKey(t testing.TB) string {
	der, err := x509.MarshalPKIXPublicKey(&r.key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}
