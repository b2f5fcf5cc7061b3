package config

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"regexp"
	"strings"

	"osaurus-sandbox/internal/fault"
)

// NewAgentID makes an id that nobody else has.
func NewAgentID() AgentID { return AgentID(NewUUID()) }

// NewUUID makes a UUID of version 4, in capitals as the desktop app writes them.
func NewUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%X-%X-%X-%X-%X", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

const nameAllowed = "1 to 64 letters (a to z), digits, dashes and spaces, with a letter or digit at either end"

// NameAgent reads an agent's name as a person writes it: capitals are written
// small and spaces as dashes, as the desktop app does it. Whatever else a name
// cannot hold is refused and not dropped, so two names are one only where they
// differ in nothing but that. "root" is refused: nobody would know whom it means.
func NameAgent(text string) (AgentName, error) {
	name, err := ParseAgentName(strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r >= 'A' && r <= 'Z': // beyond ASCII, capitals are not one to one
			return r - 'A' + 'a'
		}
		return r
	}, text))
	switch {
	case err != nil:
		return "", notAllowed("read agent name", text, nameAllowed)
	case name == "root":
		return "", fault.Newf(fault.InvalidArgs, "read agent name", text, "the name root is reserved").Advise("Choose another name.")
	}
	return name, nil
}

// A Linux user is "agent-" and the agent's name. A name that is too long for
// that keeps its beginning, and has a digest of all of it for the rest.
const (
	userPrefix = "agent-" // keeps agents apart from the distribution's own users
	maxUser    = 32       // bytes, the most that shadow's tools and the login records take
	digestLen  = 16       // 80 bits in base 32: nobody meets another by chance
)

var digestText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567")

// A name that looks as if it had been shortened is shortened too: so no name's
// user is that of another one.
var shortened = regexp.MustCompile(fmt.Sprintf(`^.*-[a-z2-7]{%d}$`, digestLen))

// User is the Linux user that an agent of this name has, unless another agent
// has it already.
func (n AgentName) User() LinuxUser {
	plain := userPrefix + string(n)
	if len(plain) < maxUser || len(plain) == maxUser && !shortened.MatchString(plain) {
		return LinuxUser(plain)
	}
	return n.userOf(string(n))
}

// OtherUser is the Linux user of an agent whose name's own another one has,
// which once had that name.
func (n AgentName) OtherUser(id AgentID) LinuxUser { return n.userOf(string(n) + "\n" + string(id)) }

func (n AgentName) userOf(what string) LinuxUser {
	sum := sha256.Sum256([]byte(what))
	digest := digestText.EncodeToString(sum[:])[:digestLen]
	room := maxUser - len(userPrefix) - 1 - digestLen
	// It has always the full length, which tells it from one that is not shortened.
	begin := string(n) + strings.Repeat("-", max(0, room-len(n)))
	return LinuxUser(userPrefix + begin[:room] + "-" + digest)
}
