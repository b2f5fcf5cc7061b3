package config

import (
	"cmp"
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
	"osaurus-sandbox/internal/printable"
)

const (
	// formatVersion is the newest format of sandbox.json that this program
	// knows. A file without the key "version" has format 1.
	formatVersion = 1
	versionKey    = "version"
	// maxFileSize bounds a settings file, in bytes.
	maxFileSize = 1 << 20
)

// stateKeys returns the keys of the desktop app's own state in the same file. They are
// kept as they are.
func stateKeys() []string {
	return []string{"setupComplete", "lastProvisionedAppVersion", "lastBootDurations", "lastBootedImageDigest", "lastRuntimeFormatVersion"}
}

// File is a settings file: its settings and its other members.
type File struct {
	path     string
	settings Settings
	doc      *document
}

// Load reads a settings file. A missing file has the defaults. A file with an error is
// never replaced by defaults: Load fails with fault.InvalidArgs, the place, and what is
// allowed there.
//
// Unknown keys are errors, unless the file's "version" is newer: then they are kept.
func Load(path string) (*File, error) {
	f := &File{path: path, settings: Defaults(), doc: &document{}}
	text, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, fault.New(fault.InvalidArgs, "read settings", path, err).Advise("Make it a regular file that you can read, or move it away to use the defaults.")
	}
	return f, f.decode(text)
}

// read returns the content of a regular file.
func read(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO must not block
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxFileSize {
		return nil, cmp.Or(err, fmt.Errorf("not a regular file of at most %d bytes", maxFileSize))
	}
	return io.ReadAll(file)
}

func (f *File) decode(text []byte) error {
	doc, err := parseDocument(text)
	version := formatVersion
	if err == nil {
		version, err = doc.version()
	}
	if err == nil {
		err = fields().decode(&f.settings, doc, func(key string) bool {
			return key == versionKey || version > formatVersion || slices.Contains(stateKeys(), key)
		})
	}
	if placed, ok := errors.AsType[*placedError](err); ok {
		line, column := printable.Place(text, placed.at)
		place := fmt.Sprintf("%s:%d:%d", f.path, line, column)
		return fault.New(fault.InvalidArgs, "read settings", place, placed).Advise(placed.advice)
	}
	f.doc = doc
	return nil
}

func (d *document) version() (int, error) {
	i := d.index(versionKey)
	if i < 0 {
		return formatVersion, nil
	}
	m := d.members[i]
	version, err := strconv.Atoi(string(m.value))
	if err != nil || version < 1 {
		return 0, &placedError{m.valAt, fmt.Errorf("%s: %s is not a format version", versionKey, brief(m.value)),
			fmt.Sprintf("%s is a whole number from 1; this program knows up to %d.", versionKey, formatVersion)}
	}
	return version, nil
}

// Settings returns the file's settings, with defaults for missing ones.
func (f *File) Settings() Settings { return f.settings }

// Set changes a setting. A list is a JSON array or items separated by commas; other
// values are written as in the file, without quotes. "KEY+" adds items to a list, and "KEY-"
// removes them. Save writes the file.
func (f *File) Set(key, text string) error {
	changed := f.settings
	raw, err := fields().put(&changed, key, text)
	if err != nil {
		return err
	}
	f.settings = changed
	f.doc.put(strings.TrimRight(key, "+-"), raw)
	return nil
}

// Save writes the file atomically. It keeps the order of keys and the text of values that
// were not Set, except for indentation.
func (f *File) Save() error { return WriteFile(f.path, f.doc.bytes()) }

// Edit changes the home's settings file. Programs that edit at the same time take turns.
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
