//go:build linux

package room

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"osaurus-sandbox/guest/layers"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/nofollow"
)

// folders creates the folders of a layer and assigns them to the room's quota.
func (r *Room) folders(m *Manager) error {
	const op = "make room"
	name := r.spec.User
	if st, err := m.layers.Read(name); err == nil && st.Upper != "" && st.Upper.UID() != r.spec.Uid {
		return fault.Newf(fault.Rejected, op, name, "its layer belongs to user id %d, not %d", st.Upper.UID(), r.spec.Uid).
			Advise("Remove the room with its layer first.")
	}
	err := os.MkdirAll(r.layer, 0o700)
	if err == nil {
		var st *layers.Stack
		if st, err = m.layers.Open(name, r.spec.Uid, m.opts.BaseName()); err == nil {
			r.upper, r.lower = m.layers.Path(st.Upper), m.layers.Paths(st.Lower...)
		}
	}
	for _, f := range r.parts() {
		path := filepath.Join(r.layer, f.name)
		err = errors.Join(err, os.MkdirAll(path, f.mode), os.Chmod(path, f.mode), os.Chown(path, f.owner, f.owner))
		if err == nil {
			err = setProject(path, r.spec.Uid)
		}
	}
	hosts := fmt.Sprintf("127.0.0.1\tlocalhost %s\n::1\tlocalhost ip6-localhost\n", r.spec.Hostname)
	err = errors.Join(err, os.MkdirAll(r.files, 0o700), os.WriteFile(hostsFile(r.files), []byte(hosts), 0o644),
		os.WriteFile(hostnameFile(r.files), []byte(r.spec.Hostname+"\n"), 0o644))
	if err == nil {
		r.disk, err = os.Open(r.layer)
	}
	if err != nil {
		return fault.New(fault.Execution, op, name, err).Advise("If the data disk is full or damaged, reset it.")
	}
	return nil
}

// discardOutdated discards a layer that was made for another base, and reports whether it did. Its
// files would hide those of the new base, such as the package database or libraries.
func (m *Manager) discardOutdated(r *Room) (bool, error) {
	st, err := m.layers.Read(r.spec.User)
	if is := m.opts.BaseName(); err != nil || st.Base == "" || is == "" || st.Base == is {
		return false, err // same base, or a base without a name
	}
	return true, m.discard(r.layer)
}

// hostsFile and hostnameFile are mounted over the room's /etc/hosts and /etc/hostname.
func hostsFile(files string) string    { return filepath.Join(files, "hosts") }
func hostnameFile(files string) string { return filepath.Join(files, "hostname") }

// part is a folder of a layer.
type part struct {
	name  string
	mode  os.FileMode
	owner int
}

func (r *Room) parts() []part {
	list := []part{{"work", 0o700, 0}, {"tmp", 0o777 | os.ModeSticky, 0}, {"jobs", 0o755, 0}, {"heavy", 0o755, 0}}
	for _, where := range heavy() {
		list = append(list, part{"heavy/" + where, 0o755, int(r.spec.Uid)})
	}
	return list
}

// trash holds folders that are being deleted in the background.
const trash = ".trash"

// discard moves a folder to the trash and deletes it in the background, without following links.
func (m *Manager) discard(path string) error {
	bin := filepath.Join(m.opts.Data, trash)
	if err := os.MkdirAll(bin, 0o700); err != nil {
		return err
	}
	name := rand.Text()
	if err := os.Rename(path, filepath.Join(bin, name)); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return empty(bin, name)
}

// sweep empties the trash of earlier boots.
func (m *Manager) sweep() error {
	bin := filepath.Join(m.opts.Data, trash)
	old, err := os.ReadDir(bin)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names := make([]string, len(old))
	for i, e := range old {
		names[i] = e.Name()
	}
	return empty(bin, names...)
}

// empty deletes folders in the trash in the background. If the guest stops first, the next boot
// continues.
func empty(bin string, names ...string) error {
	root, err := os.OpenRoot(bin)
	if err != nil {
		return err
	}
	go func() {
		defer root.Close()
		for _, name := range names {
			_ = nofollow.Remove(root, name)
		}
	}()
	return nil
}
