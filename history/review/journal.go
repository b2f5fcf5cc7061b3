package review

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/nofollow"
)

// journal names the temporary files of one Accept, so that they are found after a crash.
// Paths are bytes, since they need not be UTF-8.
type journal struct {
	ID    string   `json:"id"` // random: agents cannot have files of these names
	Paths [][]byte `json:"paths"`
}

func (j *journal) temp(i int) string { return fmt.Sprintf(".osaurus-%s-%d", j.ID, i) }

// ready is the name of what is whole and waits for the old entry, of another kind, to go.
func (j *journal) ready(i int) string { return j.temp(i) + "-ready" }

// begin writes the journal.
func (r *Review) begin(list []chosen) (*journal, error) {
	j := &journal{ID: rand.Text()}
	for _, c := range list {
		j.Paths = append(j.Paths, []byte(c.Path))
	}
	data, err := json.Marshal(j)
	if err != nil {
		return nil, fault.New(fault.Execution, "write journal", r.Journal, err)
	}
	defer r.reach("journal")
	return j, config.WriteFile(r.Journal, data)
}

func (r *Review) finish() error {
	if err := present(os.Remove(r.Journal)); err != nil {
		return fault.Wrap("remove journal", r.Journal, err)
	}
	return nil
}

// Resume cleans up after an Accept that was killed. Each file is old or new then; what is
// old is still a change. It does not need the guest.
func (r *Review) Resume() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.resume()
}

func (r *Review) resume() error {
	data, err := os.ReadFile(r.Journal)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var j journal
	if err == nil {
		err = json.Unmarshal(data, &j)
	}
	if err != nil {
		return fault.Wrap("read journal", r.Journal, err).Advise("Look for files named .osaurus-* in the mounted folder, and delete the journal.")
	}
	for i, name := range j.Paths {
		if err := r.settle(&j, i, string(name)); err != nil {
			return fault.Wrap("finish accepting", string(name), err)
		}
	}
	return r.finish()
}

func (r *Review) settle(j *journal, i int, name string) error {
	dir, err := nofollow.Folder(r.Real, parent(name))
	if err != nil {
		return present(err) // nothing was made there
	}
	defer dir.Close()
	if _, missing := dir.Lstat(path.Base(name)); errors.Is(missing, fs.ErrNotExist) {
		err = dir.Rename(j.ready(i), path.Base(name))
	} else {
		err = dir.Remove(j.ready(i))
	}
	return errors.Join(present(err), present(dir.Remove(j.temp(i))))
}

// present returns an error, but nil if it says that there is no file.
func present(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
