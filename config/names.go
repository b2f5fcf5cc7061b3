package config

import (
	"net/url"
	"path/filepath"
	"regexp"
	"strings"

	"osaurus-sandbox/internal/fault"
)

// Names are parsed once, where they enter the program. After that, they are safe as file
// names, command line arguments and in logs: they are not empty, do not start with a dash
// or a dot, and contain no slash, space or control character.
type (
	// AgentName names an agent, its home folder and its Linux user: "alice",
	// "0b7c3d5e-…".
	AgentName string
	// AgentID is an agent's UUID in capitals, as the desktop app writes it:
	// "0B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E".
	AgentID string
	// LinuxUser is the user of an agent in the guest: "agent-alice".
	LinuxUser string
	// SecretName names a secret and its environment variable: "OPENAI_API_KEY".
	SecretName string
	// PluginID is a plugin's file name in the library: "python-data-tools".
	PluginID string
	// PackName is a pack's folder name in the store: "alpine-3.24.1-amd64".
	PackName string
	// PackageName is a package of the guest's distribution: "py3-pip".
	PackageName string
	// MountName names a folder that is mounted in an agent's room: "app".
	MountName string
	// SessionID identifies an agent's persistent shell: "default", a chat's id.
	SessionID string
	// CallID identifies a command of a session, to cancel it. The caller chooses it.
	CallID string
	// SnapshotName names a snapshot of an agent's room: "with-postgres".
	SnapshotName string
	// JobID identifies a background command: 128 random bits.
	JobID string
)

// SessionDefault is the session used if none is named.
const SessionDefault SessionID = "default"

// rule describes valid names, for the parser and for people.
type rule struct {
	what    string
	pattern *regexp.Regexp // matches the whole name
	max     int            // bytes
	allowed string
}

var (
	// 64 bytes hold a UUID with room to spare, and fit every file system.
	agentName = rule{"agent name", regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`), 64,
		"1 to 64 lower-case letters, digits and dashes, with no dash at either end"}
	agentID = rule{"agent id", regexp.MustCompile(`^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`), 36,
		"a UUID: 32 hexadecimal digits in five groups with dashes between them"}
	secretName = rule{"secret name", regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`), 128,
		"1 to 128 letters, digits and underscores, and does not start with a digit"}
	// It becomes part of paths on the host and in the guest.
	pluginID = rule{"plugin id", regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$`), 64,
		"1 to 64 lower-case letters, digits, dots, dashes and underscores, with a letter or digit at either end"}
	packName = rule{"pack name", regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*$`), 64,
		"1 to 64 lower-case letters, digits, dots, dashes and underscores, and starts with a letter or digit"}
	// The alphabet of apk and apt.
	packageName = rule{"package name", regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9+._-]*$`), 128,
		`the name of a package ("ripgrep")`}
	// 64 bytes hold every usual id of a conversation.
	sessionID = rule{"session id", regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`), 64,
		"1 to 64 letters, digits, dots, dashes and underscores, and starts with a letter or digit"}
	mountName    = rule{"mount name", sessionID.pattern, sessionID.max, sessionID.allowed}
	callID       = rule{"call id", sessionID.pattern, sessionID.max, sessionID.allowed}
	jobID        = rule{"job id", regexp.MustCompile(`^[0-9a-f]{32}$`), 32, "the id that the job was started with: 32 hexadecimal digits"}
	snapshotName = rule{"snapshot name", pluginID.pattern, pluginID.max, pluginID.allowed}
)

func parseName[T ~string](r rule, name string) (T, error) {
	if len(name) > r.max || !r.pattern.MatchString(name) {
		return "", notAllowed("read "+r.what, name, r.allowed)
	}
	return T(name), nil
}

func notAllowed(op, text, allowed string) error {
	return fault.Newf(fault.InvalidArgs, op, brief(quoted(text)), "not allowed").Advise("It is " + allowed + ".")
}

// ParseAgentName parses an agent's name.
func ParseAgentName(name string) (AgentName, error) { return parseName[AgentName](agentName, name) }

// ParseAgentID parses an agent's UUID, in capitals or not.
func ParseAgentID(id string) (AgentID, error) {
	parsed, err := parseName[AgentID](agentID, id)
	return AgentID(strings.ToUpper(string(parsed))), err
}

// ParseSecretName parses a secret's name.
func ParseSecretName(name string) (SecretName, error) { return parseName[SecretName](secretName, name) }

// ParsePluginID parses a plugin's id.
func ParsePluginID(id string) (PluginID, error) { return parseName[PluginID](pluginID, id) }

// ParsePackName parses the name of a pack in the store.
func ParsePackName(name string) (PackName, error) { return parseName[PackName](packName, name) }

// parsePackageName parses the name of a package.
func parsePackageName(name string) (PackageName, error) {
	return parseName[PackageName](packageName, name)
}

// ParseMountName parses the name of a mounted folder.
func ParseMountName(name string) (MountName, error) { return parseName[MountName](mountName, name) }

// ParseSessionID parses the id of an agent's persistent shell.
func ParseSessionID(id string) (SessionID, error) { return parseName[SessionID](sessionID, id) }

// ParseSnapshotName parses the name of a snapshot.
func ParseSnapshotName(name string) (SnapshotName, error) {
	return parseName[SnapshotName](snapshotName, name)
}

// ParseCallID parses the id of a command of a session.
func ParseCallID(id string) (CallID, error) { return parseName[CallID](callID, id) }

// ParseJobID parses the id of a background command.
func ParseJobID(id string) (JobID, error) { return parseName[JobID](jobID, id) }

// PackRef selects a pack: PackAuto, a source, a pack's name or a path.
type PackRef string

// PackAuto selects the Alpine pack, or a Debian pack if Alpine's host cannot be reached.
const PackAuto PackRef = "auto"

const packAllowed = `"auto", "alpine", "debian", the name of a pack in the store, or an absolute path`

// ParsePackRef parses a reference to a pack. A path must be absolute and clean.
func ParsePackRef(text string) (PackRef, error) {
	if filepath.IsAbs(text) && filepath.Clean(text) == text && !strings.ContainsRune(text, 0) {
		return PackRef(text), nil
	}
	if _, err := ParsePackName(text); err != nil {
		return "", notAllowed("read pack", text, packAllowed)
	}
	return PackRef(text), nil
}

// Path returns the path, and whether the reference is one.
func (r PackRef) Path() (string, bool) { return string(r), filepath.IsAbs(string(r)) }

const networkAllowed = `"outbound" or "none"`

// parseNetwork parses a network setting.
func parseNetwork(text string) (Network, error) {
	switch n := Network(text); n {
	case NetworkOutbound, NetworkNone:
		return n, nil
	}
	return "", notAllowed("read network", text, networkAllowed)
}

// MirrorURL is the URL of a distribution's package repositories.
type MirrorURL string

const mirrorAllowed = `a plain http or https address ("https://dl-cdn.alpinelinux.org/alpine")`

// maxMirror bounds a mirror's URL in bytes.
const maxMirror = 512

// mirrorText has no counts: they would make it slow to compile, and the program of every
// room in a guest includes this package.
var mirrorText = regexp.MustCompile(`^[A-Za-z0-9:/._~%\[\]-]+$`)

// parseMirrorURL parses a mirror's URL. Plain HTTP is safe, because packages are signed.
// The URL becomes one word of the guest's files, so it has no user, query or fragment.
func parseMirrorURL(text string) (MirrorURL, error) {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxMirror || !mirrorText.MatchString(text) || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.User != nil {
		return "", notAllowed("read mirror", text, mirrorAllowed)
	}
	return MirrorURL(strings.TrimRight(text, "/")), nil
}
