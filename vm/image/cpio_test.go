package image_test

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"osaurus-sandbox/vm/image"
)

func cpioArchive(t *testing.T, entries ...image.CPIOEntry) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := image.WriteCPIO(&b, entries); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestCPIOLayout(t *testing.T) {
	b := cpioArchive(t, image.CPIOEntry{Name: "init", Mode: image.CPIOFile | 0o755, Data: []byte("12345")})
	want := "070701" + "00000001" + "000081ed" + "00000000" + "00000000" + "00000001" + "00000000" + "00000005" +
		"00000000" + "00000000" + "00000000" + "00000000" + "00000005" + "00000000" + "init\x00\x00" + "12345\x00\x00\x00"
	if got := string(b[:len(want)]); got != want {
		t.Errorf("archive starts with\n%q, want\n%q", got, want)
	}
	if len(b)%4 != 0 {
		t.Errorf("archive of %d bytes is not padded", len(b))
	}
}

func TestCPIOReadsIt(t *testing.T) {
	cpio, err := exec.LookPath("cpio")
	if err != nil {
		t.Skip("no cpio on this host; the boot tests have the kernel read the archive")
	}
	cmd := exec.Command(cpio, "-tv", "--quiet", "--numeric-uid-gid")
	cmd.Stdin = bytes.NewReader(cpioArchive(t,
		image.CPIOEntry{Name: "dev", Mode: image.CPIODir | 0o755},
		image.CPIOEntry{Name: "dev/null", Mode: image.CPIODevice | 0o666, Major: 1, Minor: 3},
		image.CPIOEntry{Name: "init", Mode: image.CPIOFile | 0o755, Data: []byte("12345")},
		image.CPIOEntry{Name: "empty", Mode: image.CPIOFile | 0o644}))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"drwxr-xr-x", "crw-rw-rw-", "1,   3", "-rwxr-xr-x", "dev/null", "empty"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("listing lacks %q:\n%s", want, out)
		}
	}
}
