package agents

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/nofollow"
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

// Recount makes the share's quota count a home folder again after a change on this computer.
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

// folderFor returns the folder of a new agent: its name, or if a renamed agent has that folder, with a part of its id.
// Both are host names, which have 64 bytes at most. The caller has the turn.
func (a *Agents) folderFor(agent Agent) config.AgentName {
	if slices.ContainsFunc(a.List(), func(other Agent) bool { return other.Folder == agent.Name }) {
		return config.AgentName(fmt.Sprintf("%.50s-%.8s", agent.Name, strings.ToLower(string(agent.ID))))
	}
	return agent.Name
}

// folderFree refuses a folder that exists but belongs to nobody: a deleted agent may have left it.
func (a *Agents) folderFree(op string, folder config.AgentName) error {
	dir := path.Join(homes, string(folder))
	_, err := a.root.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil:
		err = errors.New("there is such a folder already")
	}
	return fault.New(fault.Rejected, op, dir, err).Advise("Choose another name, or move " + a.Home.AgentHome(folder) + " away.")
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
	return errors.Join(err, a.sweepFolders())
}

// sweepFolders removes all folders that were set aside.
func (a *Agents) sweepFolders() error {
	a.sweeping.Lock()
	defer a.sweeping.Unlock()
	list, err := fs.ReadDir(a.root.FS(), homes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range list {
		if strings.HasPrefix(entry.Name(), aside) {
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
