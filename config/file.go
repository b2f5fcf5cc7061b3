package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"osaurus-sandbox/internal/fault"
)

const (
	// formatVersion is the newest format of sandbox.json that this program
	// knows. A file without the key "version" has format 1.
	formatVersion = 1

	// maxFileSize is far above any real settings file; a bigger one is not one.
	maxFileSize = 1 << 20

	versionKey = "version"
)

// stateKeys are what the desktop app keeps in the same file for itself. They
// choose nothing here, and are left as they are.
func stateKeys() []string {
	return []string{"setupComplete", "lastProvisionedAppVersion", "lastBootDurations", "lastBootedImageDigest", "lastRuntimeFormatVersion"}
}

// File is a settings file: its settings, and all else that stands in it.
type File struct {
	path     string
	settings Settings
	doc      *document
}

// Load reads a settings file. A missing file holds the defaults; one that is
// broken in any way is fault.InvalidArgs that names the file, the place and
// what is allowed there, and is never replaced by defaults.
//
// A key that this program does not know is an error, unless the file says
// ("version") that it was written in a newer format: then it is kept.
func Load(path string) (*File, error) {
	f := &File{path: path, settings: Defaults(), doc: &document{}}
	text, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	if err := f.decode(text); err != nil {
		return nil, err
	}
	return f, nil
}

func read(path string) ([]byte, error) {
	const op = "read settings"
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO must not block
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, path, err).Advise("Make the file readable for you.")
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && !info.Mode().IsRegular() {
		return nil, fault.Newf(fault.InvalidArgs, op, path, "not a regular file").Advise("Move it away to use the defaults.")
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFileSize+1))
	if err != nil {
		return nil, fault.New(fault.Execution, op, path, err)
	}
	if len(text) > maxFileSize {
		return nil, fault.Newf(fault.InvalidArgs, op, path, "larger than %d bytes", maxFileSize).
			Advise("This is not a settings file. Move it away to use the defaults.")
	}
	return text, nil
}

func (f *File) decode(text []byte) error {
	broken := func(at int, err error, advice string) error {
		return fault.New(fault.InvalidArgs, "read settings", f.path+":"+position(text, at), err).Advise(advice)
	}
	doc, err := parseDocument(text)
	if e, ok := errors.AsType[*syntaxError](err); ok {
		return broken(e.at, e, "Correct the file by hand, or move it away to use the defaults.")
	}
	version := formatVersion
	if i := doc.index(versionKey); i >= 0 {
		m := doc.members[i]
		if version, err = strconv.Atoi(string(m.value)); err != nil || version < 1 {
			return broken(m.valAt, fmt.Errorf("%s: %s is not a format version", versionKey, brief(m.value)),
				fmt.Sprintf("%s is a whole number from 1; this program knows up to %d.", versionKey, formatVersion))
		}
	}
	for _, m := range doc.members {
		field, known := fields().find(m.key)
		if !known {
			if m.key == versionKey || version > formatVersion || slices.Contains(stateKeys(), m.key) {
				continue
			}
			return broken(m.keyAt, fmt.Errorf("%s: unknown key", brief(json.RawMessage(m.key))), "Allowed keys: "+strings.Join(Keys(), ", ")+".")
		}
		if err := field.set(&f.settings, m.value); err != nil {
			return broken(m.valAt, fmt.Errorf("%s: %w", field.key, err), field.key+" is "+field.allowed+".")
		}
	}
	f.doc = doc
	return nil
}

// Settings are the file's settings, with defaults for what it does not say.
func (f *File) Settings() Settings { return f.settings }

// Set changes one setting from its text: a list is a JSON array or items
// separated by commas, everything else reads as it is written in the file, but
// for the quotes. The file on disk changes with Save.
func (f *File) Set(key, text string) error {
	changed := f.settings
	raw, err := fields().put(&changed, key, text)
	if err != nil {
		return err
	}
	f.settings = changed
	f.doc.put(key, raw)
	return nil
}

// Save writes the file atomically: keys in their order, the values of keys
// that were not Set byte for byte (but for indentation), whoever wrote them.
func (f *File) Save() error {
	return WriteFile(f.path, f.doc.bytes())
}

// Edit changes the home's settings file. Two programs that edit at once do so
// one after the other, and neither loses what the other wrote.
func Edit(h Home, edit func(*File) error) error {
	unlock, err := h.Lock("settings")
	if err != nil {
		return err
	}
	defer unlock()
	f, err := Load(h.SettingsFile())
	if err != nil {
		return err
	}
	if err := edit(f); err != nil {
		return err
	}
	return f.Save()
}
