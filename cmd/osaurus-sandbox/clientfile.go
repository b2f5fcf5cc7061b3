package main

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/mcp/install"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/tools"
)

// backupSuffix is what the file as it was before is called after.
const backupSuffix = ".before-osaurus-sandbox"

// clientFile is where a client keeps its servers: what a link leads to, if it is one.
func clientFile(client install.Client) (string, error) {
	user, err := os.UserHomeDir()
	if err != nil {
		return "", fault.New(fault.Unavailable, "find your folder", "", err).Advise("Set HOME.")
	}
	places := install.Places{User: user, Config: cmp.Or(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(user, ".config")), Codex: cmp.Or(os.Getenv("CODEX_HOME"), filepath.Join(user, ".codex"))}
	places.Apps = places.Config
	if runtime.GOOS == "darwin" {
		places.Apps = filepath.Join(user, "Library", "Application Support")
	}
	path := client.File(places)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path, nil
}

// change is what a client's file is to be, and what is to be kept of it beside it.
// Where there is nothing in one, there is to be none.
type change struct{ file, copy []byte }

// clientEdit is what became of a client's file.
type clientEdit struct {
	path, diff string
	changed    bool
}

// edit changes a client's file, unless do changes nothing of it.
func edit(client install.Client, dryRun bool, do func(path string, text []byte) (change, error)) (e clientEdit, err error) {
	const op = "edit the configuration of"
	if e.path, err = clientFile(client); err != nil {
		return e, err
	}
	before, mode, err := readClient(e.path)
	if err != nil {
		return e, fault.New(fault.Unavailable, op, client.Title, err).Advise("Make the file readable for you.")
	}
	after, err := do(e.path, before)
	if err != nil || bytes.Equal(before, after.file) {
		return e, err
	}
	e.changed = true
	if e.diff, _ = tools.Diff(e.path, string(before), string(after.file)); dryRun {
		return e, nil
	}
	if len(after.copy) > 0 {
		if err := config.ReplaceFile(e.path+backupSuffix, after.copy, mode); err != nil {
			return e, err
		}
	}
	if now, _, err := readClient(e.path); err != nil || !bytes.Equal(now, before) {
		return e, fault.New(fault.Rejected, op, client.Title, errors.Join(err, errors.New("it is being changed right now"))).Advise("Quit " + client.Title + ", and try again.")
	}
	if len(after.file) > 0 {
		err = config.ReplaceFile(e.path, after.file, mode)
	} else {
		err = os.Remove(e.path)
	}
	if err == nil && len(after.copy) == 0 {
		if err = os.Remove(e.path + backupSuffix); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return e, err
}

// readClient reads a client's file. None is an empty one that is to be the user's alone.
func readClient(path string) (text []byte, mode fs.FileMode, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0o600, nil
	}
	if err != nil {
		return nil, 0, err
	}
	text, err = os.ReadFile(path)
	return text, info.Mode().Perm(), err
}

// undo is a client's file as it was before install, if nothing else has changed in it
// since, and otherwise without this program: most clients write into their files. No
// copy stays: what was taken out is what this program had put in, and nothing else.
func undo(client install.Client, path string, text []byte) (change, error) {
	removed, err := client.Remove(text)
	if err != nil {
		return change{}, err
	}
	backup, _, err := readClient(path + backupSuffix)
	if err == nil && !client.Has(backup) && client.Same(removed, backup) {
		return change{file: backup}, nil
	}
	return change{file: removed}, nil
}
