package protocol

import (
	"bytes"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"time"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

// badly returns a function that makes InvalidArgs errors.
func badly(op string) func(format string, args ...any) error {
	return func(format string, args ...any) error {
		return fault.New(fault.InvalidArgs, op, "", fmt.Errorf(format, args...))
	}
}

// CheckStart validates a command. The host calls it to fail early, the guest because it trusts no
// caller.
func CheckStart(s *guestpb.Start) error {
	bad := badly("check command")
	if len(s.GetArgs()) == 0 || len(s.Args[0]) == 0 {
		return bad("there is no program to run")
	}
	if err := checkSurroundings(s.Args, s.Env, s.Dir); err != nil {
		return err
	}
	if t := s.TimeoutNanos; t < 0 || t > int64(MaxTimeout) {
		return bad("time limit %v is not between 0 and %v", time.Duration(t), MaxTimeout)
	}
	if t := s.IdleTimeoutNanos; t < 0 || t > int64(MaxTimeout) {
		return bad("idle time %v is not between 0 and %v", time.Duration(t), MaxTimeout)
	}
	if err := checkPlace(s); err != nil {
		return bad("%w", err)
	}
	if g := s.GraceNanos; g < 0 || g > int64(MaxGrace) {
		return bad("grace %v is not between 0 and %v", time.Duration(g), MaxGrace)
	}
	return nil
}

// checkSurroundings validates a program's arguments, environment and directory.
func checkSurroundings(args, env [][]byte, dir []byte) error {
	bad := badly("check command")
	if n := len(args) + len(env); n > MaxArgs {
		return bad("%d arguments and variables are more than %d", n, MaxArgs)
	}
	total := 0
	for _, list := range [][][]byte{args, env} {
		for i, b := range list {
			total += len(b)
			if len(b) > MaxArg {
				return bad("argument or variable %d has %d bytes, more than %d", i, len(b), MaxArg)
			}
			if bytes.IndexByte(b, 0) >= 0 {
				return bad("argument or variable %d holds a NUL byte", i)
			}
		}
	}
	if total > MaxArgBytes {
		return bad("arguments and environment have %d bytes, more than %d", total, MaxArgBytes)
	}
	for _, e := range env {
		if bytes.IndexByte(e, '=') <= 0 {
			return bad("variable %q is not NAME=value", printable.Clip(string(e)))
		}
	}
	if len(dir) > MaxPath || bytes.IndexByte(dir, 0) >= 0 {
		return bad("working directory %q has more than %d bytes or holds a NUL byte", printable.Clip(string(dir)), MaxPath)
	}
	return nil
}

// Folder resolves a requested working directory against the usual one.
func Folder(usual string, asked []byte) string {
	if path.IsAbs(string(asked)) {
		return string(asked)
	}
	return path.Join(usual, string(asked))
}

var (
	hostname = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?$`)
	tag      = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
)

// CheckBoot validates boot settings.
func CheckBoot(b *guestpb.Boot) error {
	bad := badly("check boot")
	if h := b.GetHostname(); h != "" && (len(h) > MaxHostname || !hostname.MatchString(h)) {
		return bad("%q is no host name of at most %d letters, digits, dots and dashes", printable.Clip(h), MaxHostname)
	}
	if len(b.GetMounts()) > MaxMounts {
		return bad("%d mounts are more than %d", len(b.Mounts), MaxMounts)
	}
	if n := len(b.GetBridgeKey()); n != 0 && n != KeySize {
		return bad("the bridge's key has %d bytes instead of %d", n, KeySize)
	}
	if len(b.GetBase()) > MaxBase {
		return bad("the base's name has more than %d bytes", MaxBase)
	}
	seen := map[string]bool{}
	for _, m := range b.GetMounts() {
		if len(m.Tag) > MaxTag || !tag.MatchString(m.Tag) {
			return bad("%q is no tag of at most %d letters, digits, dots, dashes and underscores", printable.Clip(m.Tag), MaxTag)
		}
		if err := checkPath(m.Path); err != nil {
			return bad("mount of %s: %w", m.Tag, err)
		}
		if p := string(m.Path); p == "/" || seen[p] {
			return bad("mount of %s: %q is taken", m.Tag, printable.Clip(p))
		}
		seen[string(m.Path)] = true
	}
	return checkNetwork(b.GetNetwork())
}

func checkNetwork(n *guestpb.Network) error {
	bad := badly("check network plan")
	switch n.GetKind() {
	case guestpb.Network_KIND_NONE, guestpb.Network_KIND_DHCP:
		return nil
	case guestpb.Network_KIND_STATIC:
	default:
		return bad("%v is no kind of network", n.GetKind())
	}
	if p, err := netip.ParsePrefix(n.Address); err != nil || !p.Addr().Is4() {
		return bad("%q is no IPv4 address with a prefix length, such as 10.0.2.15/24", printable.Clip(n.Address))
	}
	if a, err := netip.ParseAddr(n.Gateway); n.Gateway != "" && (err != nil || !a.Is4()) {
		return bad("%q is no IPv4 gateway", printable.Clip(n.Gateway))
	}
	if len(n.Dns) > MaxDNS {
		return bad("%d name servers are more than %d", len(n.Dns), MaxDNS)
	}
	for _, d := range n.Dns {
		if _, err := netip.ParseAddr(d); err != nil {
			return bad("%q is no address of a name server", printable.Clip(d))
		}
	}
	return nil
}

// checkPath accepts an absolute, clean path.
func checkPath(b []byte) error {
	p := string(b)
	switch {
	case len(p) > MaxPath:
		return fmt.Errorf("the path has %d bytes, more than %d", len(p), MaxPath)
	case !path.IsAbs(p), path.Clean(p) != p, bytes.IndexByte(b, 0) >= 0:
		return fmt.Errorf("%q is not a clean absolute path", printable.Clip(p))
	}
	return nil
}
