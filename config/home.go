package config

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"osaurus-sandbox/internal/fault"
)

// HomeVariable names the environment variable that moves the home folder.
const HomeVariable = "OSAURUS_HOME"

// Home is the folder that everything is kept in, an absolute path. Its methods
// only name what is in it; Make creates.
type Home string

// FindHome returns $OSAURUS_HOME, or else the usual home.
func FindHome() (Home, error) {
	if dir := os.Getenv(HomeVariable); dir != "" {
		if !filepath.IsAbs(dir) {
			return "", fault.Newf(fault.InvalidArgs, "find home folder", dir, "not an absolute path").Advise("Set " + HomeVariable + " to an absolute path.")
		}
		return Home(filepath.Clean(dir)), nil
	}
	return UsualHome()
}

// UsualHome is .osaurus in the user's own home.
func UsualHome() (Home, error) {
	dir, err := os.UserHomeDir()
	if err != nil {
		return "", fault.New(fault.Unavailable, "find home folder", "", err).Advise("Set " + HomeVariable + " to a folder of yours.")
	}
	if !filepath.IsAbs(dir) {
		return "", fault.Newf(fault.InvalidArgs, "find home folder", dir, "HOME is not an absolute path").Advise("Set HOME or " + HomeVariable + " to an absolute path.")
	}
	return Home(filepath.Join(dir, ".osaurus")), nil
}

func (h Home) join(parts ...string) string {
	return filepath.Join(append([]string{string(h)}, parts...)...)
}

// SettingsFile is what Load reads.
func (h Home) SettingsFile() string { return h.join("config", "sandbox.json") }

// MCPToken is what apps show that ask for agents' tools over HTTP.
func (h Home) MCPToken() string { return h.join("config", "mcp-token") }

// AgentMap is which agent each Linux user of the guest is.
func (h Home) AgentMap() string { return h.join("config", "sandbox-agent-map.json") }

// InstalledPlugins is which plugins an agent has.
func (h Home) InstalledPlugins(agent AgentID) string {
	return h.join("agents", string(agent), "sandbox-plugins", "installed.json")
}

// Packs is the store of what guests are made of.
func (h Home) Packs() string { return h.join("container", "packs") }

// Images is the store of what was made out of packs.
func (h Home) Images() string { return h.join("container", "images") }

// Kernel is the kernel of the guest that is set up.
func (h Home) Kernel() string { return h.join("container", "kernel", "vmlinux") }

// BaseImage is its read-only base.
func (h Home) BaseImage() string { return h.join("container", "initfs.ext4") }

// DataDisk is its writable disk.
func (h Home) DataDisk() string { return h.join("container", "data.ext4") }

// Workspace is shared with the guest as /workspace.
func (h Home) Workspace() string { return h.join("container", "workspace") }

// SharedFolder is the part of the workspace that all agents share.
func (h Home) SharedFolder() string { return h.join("container", "workspace", "shared") }

// AgentHome is an agent's home folder, in the workspace.
func (h Home) AgentHome(agent AgentName) string {
	return h.join("container", "workspace", "agents", string(agent))
}

// Plugins is the library of plugins.
func (h Home) Plugins() string { return h.join("sandbox-plugins") }

// Output is shared with the guest as /output.
func (h Home) Output() string { return h.join("container", "output") }

// Artifacts is what agents have handed over to people: a folder for each
// conversation.
func (h Home) Artifacts() string { return h.join("artifacts") }

// Database holds memory, events, tasks and the audit.
func (h Home) Database() string { return h.join("sandbox.db") }

// Secrets is the encrypted file of secrets, if they are kept in one.
func (h Home) Secrets() string { return h.join("secrets.age") }

// SecretsKey is the key that it is encrypted with.
func (h Home) SecretsKey() string { return h.join("config", "secrets.key") }

// Downloads is for what is fetched; all in it can be fetched again.
func (h Home) Downloads() string { return h.join("cache", "downloads") }

// Builder keeps the disk of an unfinished toolbox build.
func (h Home) Builder() string { return h.join("cache", "builder") }

// Locks is for the files that keep two programs apart.
func (h Home) Locks() string { return h.join("run", "locks") }

// Run is for sockets and all else that is worth nothing after a restart.
func (h Home) Run() string { return h.join("run") }

// Logs is for logs.
func (h Home) Logs() string { return h.join("logs") }

// privateDir: nobody but the user looks into the home.
const privateDir fs.FileMode = 0o700

// CheckOwner refuses a home that belongs to another user. One that does not exist passes.
func (h Home) CheckOwner() error {
	info, err := os.Stat(string(h))
	if err != nil {
		return nil
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) == os.Geteuid() {
		return nil
	}
	name := fmt.Sprintf("user %d", owner.Uid)
	if u, err := user.LookupId(strconv.Itoa(int(owner.Uid))); err == nil {
		name = u.Username
	}
	return fault.Newf(fault.Rejected, "use home", string(h), "it belongs to another user, %s", name).
		Advise("Work as that user, or set " + HomeVariable + " to a folder of your own.")
}

// Make creates a folder of the home and returns it. It refuses a home in which
// another user could swap what this one relies on.
func (h Home) Make(dir string) (string, error) {
	const op = "make folder"
	if err := os.MkdirAll(dir, privateDir); err != nil {
		return "", fault.New(fault.Unavailable, op, dir, err).Advise("Make the folder writable for you, or set " + HomeVariable + " to another.")
	}
	if err := h.CheckOwner(); err != nil {
		return "", err
	}
	info, err := os.Stat(string(h))
	if err != nil {
		return "", fault.New(fault.Unavailable, op, string(h), err).Advise("Make it readable for you, or set " + HomeVariable + " to another.")
	}
	if info.Mode().Perm()&0o022 != 0 {
		return "", fault.Newf(fault.Rejected, op, dir, "other users can write to %s", h).Advise("Run: chmod go-w " + string(h))
	}
	return dir, nil
}
