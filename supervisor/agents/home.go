package agents

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/nofollow"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/vm"
)

// Home folders are in the workspace, which agents write to. They are accessed
// through its handle, so that no link leads out of it.
const (
	homes   = "agents"
	plugins = "plugins" // in each home
	// aside is the prefix of folders that are being removed. No agent has such
	// a name.
	aside = ".removed-"
	// unfinished is the prefix of home folders of agents that are not whole yet.
	unfinished = ".unfinished-"

	privateDir fs.FileMode = 0o700
	megabyte               = 1 << 20
)

// subtree returns the home folder's path in the workspace.
func (a Agent) subtree() string { return path.Join(homes, string(a.Folder)) }

// show presents a home folder to the guest as the agent's own, with its
// limits.
func (a *Agents) show(agent Agent) error {
	l := agent.Settings.Limits
	return a.Folders.Set(vm.Subtree{
		Path: agent.subtree(), UID: agent.UID, GID: agent.UID,
		MaxBytes: int64(l.HomeMB) * megabyte, MaxFiles: int64(l.HomeFiles),
	})
}

// openWorkspace opens the workspace's folder.
func (a *Agents) openWorkspace() error {
	dir, err := a.Home.Make(a.Home.Workspace())
	if err != nil {
		return err
	}
	if a.root, err = os.OpenRoot(dir); err != nil {
		return folderFault("open workspace", dir, err)
	}
	return nil
}

// OpenHome opens an agent's home folder on this computer. The caller closes it.
func (a *Agents) OpenHome(agent Agent) (*os.Root, error) {
	root, err := a.root.OpenRoot(agent.subtree())
	if err != nil {
		return nil, folderFault("open home folder", agent.subtree(), err)
	}
	return root, nil
}

// Recount makes the share's quota count a home folder again that was changed on this computer.
func (a *Agents) Recount(agent Agent) { a.Folders.Recount(agent.subtree()) }

func folderFault(op, dir string, err error) error {
	return fault.New(fault.Unavailable, op, dir, err).Advise("Check that it is a folder that you can write to, and that its disk is not full.")
}

// makeHome makes an agent's home folder unless it is there.
func (a *Agents) makeHome(agent Agent) error {
	if err := a.root.MkdirAll(agent.subtree(), privateDir); err != nil {
		return folderFault("make home folder", agent.subtree(), err)
	}
	// What the agent has put there instead is its own business.
	if err := a.root.Mkdir(path.Join(agent.subtree(), plugins), privateDir); err != nil && !errors.Is(err, fs.ErrExist) {
		return folderFault("make home folder", path.Join(agent.subtree(), plugins), err)
	}
	return nil
}

// folderFree refuses a name whose folder exists but belongs to nobody: a
// deleted agent may have left it.
func (a *Agents) folderFree(op string, name config.AgentName) error {
	dir := path.Join(homes, string(name))
	_, err := a.root.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil:
		err = errors.New("there is such a folder already")
	}
	return fault.New(fault.Rejected, op, dir, err).Advise("Choose another name, or move " + a.Home.AgentHome(name) + " away.")
}

// follow renames an agent's home folder to its name. The caller has the turn
// for its room, and there is no room.
func (a *Agents) follow(ctx context.Context, m *member) error {
	const op = "move home folder"
	end, err := a.turn(ctx, everybody, op, string(a.agentOf(m).Name))
	if err != nil {
		return err
	}
	defer end()
	agent := a.agentOf(m)
	if !a.Has(agent.ID) {
		return nil // its folder may be another's by now
	}
	before := agent.subtree()
	if agent.Folder = agent.Name; agent.subtree() == before {
		return nil
	}
	// It can be repeated after a crash: a folder that was moved is not there
	// anymore.
	if err := a.root.Rename(before, agent.subtree()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return folderFault(op, before, err)
	}
	if err := a.rows.update(ctx, op, agent); err != nil {
		return err
	}
	a.mu.Lock()
	m.Folder = agent.Folder
	a.mu.Unlock()
	a.changed.Notify()
	a.Folders.Remove(before)
	return a.show(agent)
}

// followAll renames the homes of a machine's agents that were renamed while they had a room.
func (a *Agents) followAll(vm *machine.Machine) {
	for _, m := range a.members(vm, func(m *member) bool { return m.Folder != m.Name && !m.isUnfinished() }) {
		a.letFollow(a.life, m)
	}
}

// letFollow renames an agent's home folder, now or when there is no room: see
// tidy.
func (a *Agents) letFollow(ctx context.Context, m *member) {
	if err := a.followHome(ctx, m); err != nil && a.life.Err() == nil {
		a.Log.Warn("an agent's home folder does not have its name", "agent", a.agentOf(m).Name, "error", err)
	}
}

// setAside renames the home folder of a deleted agent, unless it belongs to
// another agent by now. The caller has the turn.
func (a *Agents) setAside(agent Agent) error {
	if slices.ContainsFunc(a.List(), func(other Agent) bool { return other.Folder == agent.Folder }) {
		return nil
	}
	if err := a.root.Rename(agent.subtree(), path.Join(homes, aside+rand.Text())); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return folderFault("delete workspace", agent.subtree(), err)
	}
	return nil
}

// removeHome removes the home folder of a deleted agent: what was set aside,
// and what a last command of the agent has made again.
func (a *Agents) removeHome(ctx context.Context, agent Agent) error {
	end, err := a.turn(ctx, everybody, "delete workspace", string(agent.Name))
	if err != nil {
		return err
	}
	err = a.setAside(agent)
	end()
	return errors.Join(err, a.sweepFolders(aside))
}

// sweepFolders removes all folders with one of the prefixes.
func (a *Agents) sweepFolders(prefixes ...string) error {
	a.sweeping.Lock()
	defer a.sweeping.Unlock()
	list, err := fs.ReadDir(a.root.FS(), homes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range list {
		if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(entry.Name(), prefix) }) {
			err = errors.Join(err, remove(a.root, path.Join(homes, entry.Name())))
		}
	}
	return err
}

// remove removes a folder and everything in it, even if an agent has made it
// unreadable.
func remove(root *os.Root, dir string) error {
	if err := nofollow.Remove(root, dir); err != nil {
		return folderFault("remove", dir, err)
	}
	return nil
}
