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

// Home is the absolute path of the folder with all data. Most methods only return paths in
// it; Make creates folders.
type Home string

// FindHome returns $OSAURUS_HOME, or UsualHome if it is not set.
func FindHome() (Home, error) {
	if dir := os.Getenv(HomeVariable); dir != "" {
		if !filepath.IsAbs(dir) {
			return "", fault.Newf(fault.InvalidArgs, "find home folder", dir, "not an absolute path").Advise("Set " + HomeVariable + " to an absolute path.")
		}
		return Home(filepath.Clean(dir)), nil
	}
	return UsualHome()
}

// UsualHome returns .osaurus in the user's home.
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

// SettingsFile is the file that Load reads.
func (h Home) SettingsFile() string { return h.join("config", "sandbox.json") }

// APIToken has the token of the control API on TCP.
func (h Home) APIToken() string { return h.join("config", "api-token") }

// MCPToken is the file with the token for MCP over HTTP.
func (h Home) MCPToken() string { return h.join("config", "mcp-token") }

// AgentMap maps the guest's Linux users to agents.
func (h Home) AgentMap() string { return h.join("config", "sandbox-agent-map.json") }

// InstalledPlugins lists an agent's plugins.
func (h Home) InstalledPlugins(agent AgentID) string {
	return h.join("agents", string(agent), "sandbox-plugins", "installed.json")
}

// Packs is the store of packs.
func (h Home) Packs() string { return h.join("container", "packs") }

// Images is the store of images built from packs.
func (h Home) Images() string { return h.join("container", "images") }

// DataDisk is the guest's writable disk.
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

// History is the store of checkpoints.
func (h Home) History() string { return h.join("history") }

// Artifacts has a folder with shared artifacts for each conversation.
func (h Home) Artifacts() string { return h.join("artifacts") }

// Database stores memory, events, tasks and the audit.
func (h Home) Database() string { return h.join("sandbox.db") }

// Snapshots has a folder for each snapshot of the sandbox.
func (h Home) Snapshots() string { return h.join("snapshots") }

// AgentStates has a folder for each agent, with what is known of its plugins.
func (h Home) AgentStates() string { return h.join("agents") }

// Secrets is the encrypted file of the secret store "file".
func (h Home) Secrets() string { return h.join("secrets.age") }

// SecretsKey is the key of the Secrets file.
func (h Home) SecretsKey() string { return h.join("config", "secrets.key") }

// Downloads is the cache of downloads.
func (h Home) Downloads() string { return h.join("cache", "downloads") }

// Transfers has what is being exported and imported, for as long as that takes.
func (h Home) Transfers() string { return h.join("cache", "transfers") }

// Builder keeps the disk of an unfinished toolbox build.
func (h Home) Builder() string { return h.join("cache", "builder") }

// Locks is for lock files.
func (h Home) Locks() string { return h.join("run", "locks") }

// Run is for sockets and other files that a restart makes useless.
func (h Home) Run() string { return h.join("run") }

// Logs is the folder of logs.
func (h Home) Logs() string { return h.join("logs") }

// privateDir keeps other users out of the home.
const privateDir fs.FileMode = 0o700

// CheckOwner fails if the home belongs to another user. It accepts a missing home.
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

// Make creates a folder of the home and returns it. It fails if another user owns the home
// or can write to it.
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
