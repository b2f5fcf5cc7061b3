//go:build !vzstandin

package e2e_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/supervisor/e2e"
)

// forms are texts to search for, by what they are.
type forms map[string]string

// add adds a text in two halves, since a page's end may cut it.
func (f forms) add(what, text string) {
	f[what+", first half"], f[what+", second half"] = text[:len(text)/2], text[len(text)/2:]
}

// formsOf returns a secret's value as it is and in base64, alone and in basic authentication.
func formsOf(name, user, value string) forms {
	f := forms{}
	f.add(name, value)
	for lead := range 3 { // bytes of a group before it
		const group = 4
		text := base64.StdEncoding.EncodeToString([]byte("xxx"[:lead] + value))
		f.add(fmt.Sprint(name, " in base64 after ", lead), text[group:len(text)-group])
	}
	f.add(name+" as basic authentication", base64.StdEncoding.EncodeToString([]byte(user+":"+value)))
	return f
}

// in returns what a text has.
func (f forms) in(text []byte, found map[string]bool) {
	for what, form := range f {
		if !found[what] && bytes.Contains(text, []byte(form)) {
			found[what] = true
		}
	}
}

// file searches a file, whose holes it leaves out.
func (f forms) file(path string, found map[string]bool) (searched int64, err error) {
	const chunk, overlap = 1 << 20, 256
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	b := make([]byte, chunk)
	for at := int64(0); ; {
		data, err := file.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return searched, nil
		} else if err != nil {
			return searched, err
		}
		end, err := file.Seek(data, unix.SEEK_HOLE)
		if err != nil {
			return searched, err
		}
		for at = data; at < end; {
			n, err := file.ReadAt(b[:min(chunk, end-at)], at)
			if err != nil && !(errors.Is(err, io.EOF) && n > 0) {
				return searched, err
			}
			f.in(b[:n], found)
			searched += int64(n)
			if at += int64(n); at < end {
				at -= overlap
			}
		}
	}
}

// memory searches the guest's memory, which is a file of its QEMU.
func (f forms) memory(t *testing.T, found map[string]bool) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", e2e.QEMU(t, os.Getpid())))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if name, err := os.Readlink(path); err != nil || !strings.HasPrefix(name, "/memfd:memory-backend-memfd") {
			continue
		}
		searched, err := f.file(path, found)
		t.Logf("%d MiB of the guest's memory", searched>>20)
		const least = 64 << 20
		if err != nil || searched < least {
			t.Errorf("%d bytes, %v", searched, err)
		}
		return
	}
	t.Error("QEMU has no such file")
}

// folder searches the files of a folder, and their names.
func (f forms) folder(t *testing.T, folder string, found map[string]bool) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f.in([]byte(path), found)
		if !d.Type().IsRegular() {
			return nil
		}
		_, err = f.file(path, found)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
