package bake_test

import (
	"archive/tar"
	"bytes"
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
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// repository is a signed apk repository, served to guests by this host.
type repository struct {
	key   *rsa.PrivateKey
	files map[string][]byte // by path below the mirror

	mu      sync.Mutex
	asked   map[string]int
	inspect func(path string) // called for each request, if not nil
}

// hostAddress is this host as a guest sees it through QEMU's user network.
const hostAddress = "10.0.2.2"

// keyName is the name of the repository's key in /etc/apk/keys.
const keyName = "test@osaurus.rsa.pub"

// apkPackage is a package to be.
type apkPackage struct {
	name, depends string
	postInstall   string
	files         map[string]string // with mode 0755
}

func newRepository(t testing.TB, packages ...apkPackage) *repository {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	r := &repository{key: key, files: map[string][]byte{}, asked: map[string]int{}}
	var index strings.Builder
	for _, p := range packages {
		file, entry := r.build(t, p)
		r.files["/v3.20/main/x86_64/"+p.name+"-1.0-r0.apk"] = file
		index.WriteString(entry)
	}
	r.files["/v3.20/main/x86_64/APKINDEX.tar.gz"] = r.sign(t, segment(t, true, map[string]string{"DESCRIPTION": "test", "APKINDEX": index.String()}))
	r.files["/v3.20/community/x86_64/APKINDEX.tar.gz"] = r.sign(t, segment(t, true, map[string]string{"DESCRIPTION": "test", "APKINDEX": ""}))
	return r
}

// build makes a package file and its entry in the index.
func (r *repository) build(t testing.TB, p apkPackage) (file []byte, entry string) {
	data := segment(t, true, p.files)
	hash := sha256.Sum256(data)
	info := fmt.Sprintf("pkgname = %s\npkgver = 1.0-r0\npkgdesc = a test\nurl = http://localhost\nsize = 1\narch = x86_64\nlicense = none\n", p.name)
	if p.depends != "" {
		info += "depend = " + p.depends + "\n"
	}
	info += "datahash = " + hex.EncodeToString(hash[:]) + "\n"
	control := map[string]string{".PKGINFO": info}
	if p.postInstall != "" {
		control[".post-install"] = p.postInstall
	}
	head := segment(t, false, control)
	id := sha1.Sum(head)
	file = append(r.sign(t, head), data...)
	entry = fmt.Sprintf("C:Q1%s\nP:%s\nV:1.0-r0\nA:x86_64\nS:%d\nI:1\nT:a test\nU:http://localhost\nL:none\n",
		base64.StdEncoding.EncodeToString(id[:]), p.name, len(file))
	if p.depends != "" {
		entry += "D:" + p.depends + "\n"
	}
	return file, entry + "\n"
}

const libgreet = "/v3.20/main/x86_64/libgreet-1.0-r0.apk"

// replace puts other files behind what was signed of a package, as one does
// who has the mirror but not the key. It returns the package as it was.
func (r *repository) replace(t testing.TB, p apkPackage) (good []byte) {
	path := "/v3.20/main/x86_64/" + p.name + "-1.0-r0.apk"
	good = r.files[path]
	third := 0 // where the third gzip stream starts
	for range 2 {
		third += 1 + bytes.Index(good[third+1:], []byte("\x1f\x8b\x08"))
	}
	r.files[path] = append(bytes.Clone(good[:third]), segment(t, true, p.files)...)
	return good
}

// sign puts a signature before a segment.
func (r *repository) sign(t testing.TB, signed []byte) []byte {
	sum := sha1.Sum(signed)
	signature, err := rsa.SignPKCS1v15(nil, r.key, crypto.SHA1, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return append(segment(t, false, map[string]string{".SIGN.RSA." + keyName: string(signature)}), signed...)
}

// segment is one gzip stream with a tar in it: apk's files are a row of them,
// of which only the last ends its tar.
func segment(t testing.TB, last bool, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	made := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for i, c := range name {
			if c == '/' && !made[name[:i]] {
				made[name[:i]] = true
				if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name[:i] + "/", Mode: 0o755}); err != nil {
					t.Fatal(err)
				}
			}
		}
		sum := sha1.Sum([]byte(files[name]))
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(files[name]))}
		if strings.Contains(name, "/") { // a file of the package, not about it
			h.PAXRecords = map[string]string{"APK-TOOLS.checksum.SHA1": hex.EncodeToString(sum[:])}
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, files[name]); err != nil {
			t.Fatal(err)
		}
	}
	end := w.Flush
	if last {
		end = w.Close
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// publicKey is what belongs into the guest's /etc/apk/keys.
func (r *repository) publicKey(t testing.TB) string {
	der, err := x509.MarshalPKIXPublicKey(&r.key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// serve serves the repository and returns its address for guests.
func (r *repository) serve(t testing.TB) (mirror string) {
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	return "http://" + hostAddress + ":" + port
}

func (r *repository) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	r.asked[q.URL.Path]++
	inspect, file := r.inspect, r.files[q.URL.Path]
	r.mu.Unlock()
	if inspect != nil {
		inspect(q.URL.Path)
	}
	if file == nil {
		http.NotFound(w, q)
		return
	}
	_, _ = w.Write(file)
}

func (r *repository) count(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked["/v3.20/main/x86_64/"+name]
}
