package protocol

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/internal/subnet"
)

// HomesDir is where the homes of agents are.
const HomesDir = "/workspace/agents"

// SharedDir is the folder that all agents share.
const SharedDir = "/workspace/shared"

// The limits of rooms.
const (
	// MinUID is above the ids of system users.
	MinUID = 1000
	// MaxUID is below the ids that mean "nobody".
	MaxUID = 1<<31 - 1
	// MinMemory is enough for a shell and a small program.
	MinMemory = 16 << 20
	// MinPids lets a shell run a pipe.
	MinPids = 4
	// MaxPids is the kernel's own bound on processes (PID_MAX_LIMIT).
	MaxPids = 1 << 22
	// MaxWeight is the kernel's limit.
	MaxWeight = 10000
	// MaxCPUMillis is more than a guest's processors.
	MaxCPUMillis = 1000 * 1000
	// MaxDisk is larger than any data disk.
	MaxDisk = 1 << 50
	// MaxSide bounds the rows and columns of a terminal.
	MaxSide = 10000
	// maxUser is the length of a user in login records.
	maxUser = 32
	// maxHome is twice the longest home name of the host.
	maxHome = 128
	// MaxTerm is longer than any terminal type.
	MaxTerm = 64
	// MaxToken is longer than 256 bits in any encoding.
	MaxToken = 128
)

// No repeat counts: they slow down compiling at each start of the guest program.
var (
	hostname  = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?$`)
	userName  = regexp.MustCompile(`^[a-z_][a-z0-9_-]*$`)
	lastOfDir = regexp.MustCompile(`^[^/\x00-\x1f\x7f]+$`)
	termName  = regexp.MustCompile(`^[A-Za-z0-9._+-]*$`)
	tokenText = regexp.MustCompile(`^[A-Za-z0-9_-]*$`)
)

// CheckUser validates the user of a room. The name is also used for folders.
func CheckUser(user string) error {
	if len(user) > maxUser || !userName.MatchString(user) || user == "root" {
		return fault.Newf(fault.InvalidArgs, "check room", printable.Clip(user), "a room's user has at most 32 lower-case letters, digits, - and _")
	}
	return nil
}

// CheckRoom validates a room's configuration.
func CheckRoom(r *guestpb.Room) error {
	if err := CheckUser(r.GetUser()); err != nil {
		return err
	}
	bad := func(format string, args ...any) error {
		return fault.New(fault.InvalidArgs, "check room", r.User, fmt.Errorf(format, args...))
	}
	if r.Uid < MinUID || r.Uid > MaxUID {
		return bad("user id %d is not between %d and %d", r.Uid, MinUID, MaxUID)
	}
	name, below := strings.CutPrefix(r.Home, HomesDir+"/")
	if !below || len(name) > maxHome || !lastOfDir.MatchString(name) || name == "." || name == ".." || strings.ContainsAny(name, ":,") {
		return bad("home %q is no folder of %s", printable.Clip(r.Home), HomesDir)
	}
	if len(r.Hostname) > MaxHostname || !hostname.MatchString(r.Hostname) {
		return bad("%q is no host name", printable.Clip(r.Hostname))
	}
	if err := checkAddress(r.Address); err != nil {
		return bad("%w", err)
	}
	if t := r.Trust; t != nil {
		block, rest := pem.Decode(t.Certificate)
		if len(t.Certificate) > engine.MaxCertificate || block == nil || block.Type != "CERTIFICATE" || len(rest) > 0 {
			return bad("the certificate is not one PEM block of at most %d bytes", engine.MaxCertificate)
		}
		if len(t.Environment) > maxTrustVariables || slices.ContainsFunc(t.Environment, func(v string) bool {
			return len(v) > maxTrustVariable || !strings.Contains(v, "=") || strings.ContainsRune(v, 0)
		}) {
			return bad("the variables for the certificate are not at most %d of %d bytes", maxTrustVariables, maxTrustVariable)
		}
	}
	return CheckLimits(r.Limits)
}

// maxTrustVariables and maxTrustVariable bound what each command's environment has beside its own.
const maxTrustVariables, maxTrustVariable = 32, 1 << 10

// checkAddress validates the address of a room or a plugin, which may be empty.
func checkAddress(address []byte) error {
	if len(address) == 0 {
		return nil
	}
	a, _ := netip.AddrFromSlice(address)
	if !subnet.Rooms().Contains(a) || a == subnet.Rooms().Addr() || a == subnet.RoomRouter() {
		return fmt.Errorf("%v is no address for a room in %v", a, subnet.Rooms())
	}
	return nil
}

// CheckToken validates a room's bridge token. Its errors do not contain the token.
func CheckToken(token []byte) error {
	if len(token) > MaxToken || !tokenText.Match(token) {
		return fault.Newf(fault.InvalidArgs, "check token", "", "%d bytes given; a token is at most %d letters, digits, dashes and underscores", len(token), MaxToken)
	}
	return nil
}

// CheckLimits validates a room's limits.
func CheckLimits(l *guestpb.Limits) error {
	for _, c := range []struct {
		name         string
		is, min, max uint64
	}{
		{"cpu weight", uint64(l.GetCpuWeight()), 1, MaxWeight},
		{"cpu limit", uint64(l.GetCpuMaxMillis()), 10, MaxCPUMillis},
		{"memory", l.GetMemoryBytes(), MinMemory, MaxDisk},
		{"processes", uint64(l.GetPids()), MinPids, MaxPids},
		{"disk", l.GetDiskBytes(), 1 << 20, MaxDisk},
		{"files", l.GetDiskFiles(), 100, MaxDisk},
		{"io", l.GetIoBytesPerSecond(), 64 << 10, MaxDisk},
	} {
		if c.is != 0 && (c.is < c.min || c.is > c.max) { // 0 is the default
			return fault.Newf(fault.InvalidArgs, "check limits", c.name, "%d is not between %d and %d", c.is, c.min, c.max)
		}
	}
	return nil
}

// CheckSize validates the size of a terminal.
func CheckSize(rows, cols uint32) error {
	if rows > MaxSide || cols > MaxSide {
		return fault.Newf(fault.InvalidArgs, "check terminal", "", "%d rows and %d columns are more than %d", rows, cols, MaxSide)
	}
	return nil
}

// checkPlugin validates the plugin that a command belongs to.
func checkPlugin(plugin string, ownNetwork bool, address []byte, room string) error {
	if plugin == "" {
		if ownNetwork {
			return errors.New("only a plugin's program has a network of its own")
		}
		return nil
	}
	if room == "" {
		return errors.New("a plugin's program needs a room")
	}
	if _, err := config.ParsePluginID(plugin); err != nil {
		return err
	}
	if len(address) > 0 && !ownNetwork {
		return errors.New("only an own network has an address")
	}
	return checkAddress(address)
}

// checkPlace validates where a command runs, and its terminal.
func checkPlace(s *guestpb.Start) error {
	if len(s.Room) > 0 {
		if err := CheckUser(string(s.Room)); err != nil {
			return err
		}
	} else if s.RoomRoot || s.ReadOnly {
		return errors.New("the room's root and read-only commands need a room")
	}
	if err := checkPlugin(s.Plugin, s.OwnNetwork, s.Address, string(s.Room)); err != nil {
		return err
	}
	if s.Plugin != "" && (s.RoomRoot || s.ReadOnly) {
		return errors.New("a plugin's program runs as its agent only")
	}
	if s.Pty != nil {
		if err := CheckSize(s.Pty.Rows, s.Pty.Cols); err != nil {
			return err
		}
		if len(s.Pty.Term) > MaxTerm || !termName.MatchString(s.Pty.Term) {
			return fmt.Errorf("%q is not a terminal type", printable.Clip(s.Pty.Term))
		}
	}
	if s.MaxOutputBytes > engine.MaxOutputLimit {
		return fmt.Errorf("output is limited to %[2]d bytes, not %[1]d", s.MaxOutputBytes, engine.MaxOutputLimit)
	}
	return nil
}
