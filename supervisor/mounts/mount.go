// Package mounts mounts folders of this computer in agents' rooms, and brings what agents change there to
// people's review.
package mounts

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
)

const (
	// maxPerAgent bounds the mounts of an agent: as many as a room can have.
	maxPerAgent = 16
	// maxName leaves room for the part that guestName adds.
	maxName = 40
	// maxFor is the longest time of a mount that ends by itself.
	maxFor = 366 * 24 * time.Hour
)

// State says whether an agent has a mount.
type State string

const (
	Mounted State = "mounted"
	Waiting State = "waiting" // for the agent's room
	Gone    State = "gone"    // the folder is not there any more
	Failed  State = "failed"
)

// Mount is a folder of this computer in an agent's room.
type Mount struct {
	Agent  config.AgentID
	Name   config.MountName
	Folder string // without links
	At     string // in the room
	Mode   guest.MountMode
	Made   time.Time
	Until  time.Time // zero: without end
	Keep   bool      // outlives the daemon
	Ask    bool      // the agent may ask a person to accept its changes
	All    bool      // see Rules.Open

	State   State
	Trouble error // of Gone and Failed
}

// guestName returns the name of the mount in the guest. Each folder has its own, so that changes to one are
// never shown over another.
func (m Mount) guestName() config.MountName {
	digest := sha256.Sum256([]byte(m.Folder))
	return m.Name + "." + config.MountName(hex.EncodeToString(digest[:4]))
}

// historyKey begins the keys of its trees in the history.
func (m Mount) historyKey() string { return "mount/" + string(m.Agent) + "/" + string(m.guestName()) }

// expired reports whether the mount's time is over. It compares wall clocks: this computer may have slept.
func (m Mount) expired() bool {
	return !m.Until.IsZero() && !time.Now().Round(0).Before(m.Until.Round(0))
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// complete returns what was asked for as the mount of an opened folder in the room of an agent with this home there.
func (m Mount) complete(agent config.AgentID, home, folder string) (Mount, error) {
	invalid := func(subject, why, advice string) (Mount, error) {
		return Mount{}, fault.Newf(fault.InvalidArgs, opMount, subject, "%s", why).Advise(advice)
	}
	m.Agent, m.Folder, m.Made, m.Until = agent, folder, time.Now().UTC(), m.Until.UTC()
	name := string(m.Name)
	if name == "" {
		name = strings.TrimLeft(notInNames.ReplaceAllString(filepath.Base(folder), "-"), "._-")
		name = cmp.Or(name[:min(len(name), maxName)], "folder")
	}
	var err error
	if m.Name, err = config.ParseMountName(name); err != nil {
		return Mount{}, err
	}
	m.At, m.Mode = cmp.Or(m.At, path.Join(guest.MountsDir, name)), cmp.Or(m.Mode, guest.MountReview)
	switch {
	case len(name) > maxName:
		return invalid(name, "the name is too long", "Choose another one: --name app")
	case m.At != path.Clean(m.At) || strings.ContainsRune(m.At, 0) || !within(m.At, guest.MountsDir) && !within(m.At, home):
		return invalid(m.At, "nothing can be mounted there", "Mount below "+guest.MountsDir+" or below the agent's home, "+home+".")
	case m.Mode != guest.MountReview && m.Mode != guest.MountRead && m.Mode != guest.MountWrite:
		return invalid(string(m.Mode), "not a mode", "Use review, read or write.")
	case m.expired() || m.Until.After(m.Made.Add(maxFor)):
		return invalid(m.Until.String(), "not a time at which a mount can end", "Use a duration such as 8h, at most a year, or none.")
	}
	return m, nil
}

// clash returns why two mounts of an agent cannot be there at once, or nil.
func (m Mount) clash(other Mount) error {
	refuse := func(why string) error {
		return fault.Newf(fault.Rejected, opMount, m.Folder, "%s", why).
			Advise("Unmount the other one first: osaurus-sandbox unmount AGENT " + string(other.Name))
	}
	overlap := func(a, b string) bool { return same(a, b) || within(a, b) || within(b, a) }
	switch {
	case strings.EqualFold(string(m.Name), string(other.Name)):
		return refuse("the agent already has a mount named " + string(other.Name) + ": " + other.Folder)
	case overlap(m.Folder, other.Folder):
		return refuse("it overlaps with the mount " + string(other.Name) + ", of " + other.Folder)
	case overlap(m.At, other.At):
		return refuse(m.At + " overlaps with the mount " + string(other.Name) + ", at " + other.At)
	}
	return nil
}
